"""The search of a release for solutions: it finds them wherever they lie, and none in what a graded course ships."""

import html
import re
import zipfile

import nbformat
import pytest

from autograder.core.layout import ROOT
from autograder.grading.shipped import shipped
from autograder.selfcheck.chapters import Chapter

VIEWS = Chapter(ROOT / "exercises" / "views")
SOLUTION = VIEWS.solution("patchify")
RENAMED = re.sub(r"\bimages\b", "pictures", SOLUTION).replace("grid", "g")


def notebook_of(source: str) -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("units.py", f"import math\n\n\n{SOLUTION}\n"),
        ("views.ipynb", notebook_of(SOLUTION)),
        ("views.md", f"Text, it's.\n\n```{{code-cell}} python\n{SOLUTION}\n```\n"),
        ("views.html", f'<pre>a = [\n</pre><pre><span class="k">{html.escape(SOLUTION)}</span></pre>'),
        ("renamed.py", RENAMED),
    ],
)
def test_a_solution_is_found_wherever_it_lies(tmp_path, name, text):
    inner = tmp_path / "inner.whl"
    with zipfile.ZipFile(inner, "w") as wheel:
        wheel.writestr(name, text)
    with zipfile.ZipFile(tmp_path / "release.zip", "w") as archive:
        archive.write(inner, "exercises/inner.whl")
    inner.unlink()
    (found,) = shipped(tmp_path, [VIEWS])
    assert found.what == "the solution of views.patchify" and found.where.endswith(f"inner.whl!{name}")


@pytest.mark.parametrize("name", ["exercises/views/compact/judge.py", "exercises/views/pictures.py", "hints.yml"])
def test_what_a_hidden_test_is_made_of_is_found_by_its_name(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "mark.whl", "w") as wheel:
        wheel.writestr(name, "")
        wheel.writestr("a.py", "\n".join(f"x{count} = {count}" for count in range(9)))
    assert [one.where for one in shipped(tmp_path, [VIEWS])] == [f"mark.whl!{name}"]


def test_a_release_without_code_was_not_searched(tmp_path):
    (tmp_path / "index.html").write_text("<p>Nothing</p>")
    with pytest.raises(ValueError, match="no code"):
        shipped(tmp_path, [VIEWS])
