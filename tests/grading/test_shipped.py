"""The search of a release for solutions: it finds them wherever they lie, and none in what a graded course ships."""

import html
import re
import shutil
import textwrap
import zipfile

import nbformat
import pytest

from autograder.core.layout import ROOT
from autograder.grading.shipped import shipped
from autograder.selfcheck.chapters import Chapter

VIEWS = Chapter(ROOT / "exercises" / "views")
SOLUTION = VIEWS.solution("patchify")
RENAMED = re.sub(r"\bimages\b", "pictures", SOLUTION).replace("grid", "g")


def notebook_with(cell: nbformat.NotebookNode) -> str:
    return nbformat.writes(nbformat.v4.new_notebook(cells=[cell]))


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
        ("long.py", "x = 1\n" * 10_000 + SOLUTION),
        ("prompts.txt", re.sub("^", ">>> ", SOLUTION, flags=re.M)),
        ("a.diff.txt", re.sub("^", "+", SOLUTION, flags=re.M)),
        ("log.txt", f"it's said\n  once\n a'\n{SOLUTION}"),
        ("list.md", f"1. A step\n\n   ~~~python\n{textwrap.indent(SOLUTION, '   ')}\n   ~~~\n"),
        ("VIEWS.HTM", f"<p><code>{html.escape(SOLUTION)}</code>"),
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


@pytest.mark.parametrize(
    "name", ["exercises/views/compact/judge.py", "n-site/exercises/views/pictures.py", "hints.yml"]
)
def test_what_a_hidden_test_is_made_of_is_found_by_its_name(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "mark.whl", "w") as wheel:
        wheel.writestr(name, "")
        wheel.writestr("a.py", "\n".join(f"x{count} = {count}" for count in range(9)))
    assert [one.where for one in shipped(tmp_path, [VIEWS])] == [f"mark.whl!{name}"]


@pytest.mark.parametrize(
    "cell",
    [
        nbformat.v4.new_markdown_cell(f"Like this:\n\n```python\n{SOLUTION}\n```"),
        nbformat.v4.new_raw_cell(SOLUTION),
        nbformat.v4.new_code_cell("show()", outputs=[nbformat.v4.new_output("stream", text=SOLUTION)]),
        nbformat.v4.new_code_cell(
            SOLUTION.replace("def patchify", "def _expected"), metadata={"nbgrader": {"locked": True}}
        ),
    ],
    ids=["text", "raw", "output", "visible check"],
)
def test_a_solution_is_found_in_whatever_cell_it_is(tmp_path, cell):
    (tmp_path / "views.ipynb").write_text(notebook_with(cell))
    assert [one.what for one in shipped(tmp_path, [VIEWS])] == ["the solution of views.patchify"]


def test_a_solution_that_is_not_marked_as_one_is_found(tmp_path):
    folder = shutil.copytree(VIEWS.folder, tmp_path / "exercises" / "views")
    text = (folder / "notebook.py").read_text("utf-8")
    (folder / "notebook.py").write_text(text.replace("### BEGIN SOLUTION", "## BEGIN SOLUTION", 1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "units.py").write_text("x = [count * 2 for count in range(9) if count]\n")
    (found,) = shipped(tmp_path / "out", [Chapter(folder)])
    assert found.what == "the solution of views.predict_view, which is not marked as one"


def test_an_archive_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "units.py").write_text("x = [count * 2 for count in range(9) if count]\n")
    (tmp_path / "all.tar.gz").write_bytes(b"")
    assert [one.where for one in shipped(tmp_path, [VIEWS])] == ["all.tar"]


def test_a_release_without_code_was_not_searched(tmp_path):
    (tmp_path / "index.html").write_text("<p>Nothing</p>")
    with pytest.raises(ValueError, match="no code"):
        shipped(tmp_path, [VIEWS])
