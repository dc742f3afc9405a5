"""The notebooks that learners are given: no solution, no hidden test."""

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.drafts import in_the_book
from autograder.authoring.pipeline import refresh_sources
from tests.pipeline.conftest import ROOT, Course


def solution_lines(course) -> set[str]:
    """Lines that stand between the solution marks of the source notebook and nowhere else."""
    inside, outside, solving = set(), set(), False
    for line in (line.strip() for cell in course.notebook("source").cells for line in cell.source.split("\n")):
        if "BEGIN SOLUTION" in line:
            solving = True
        elif "END SOLUTION" in line:
            solving = False
        else:
            (inside if solving else outside).add(line)
    return {line for line in inside - outside if line}


def test_release_holds_no_line_of_a_solution(course):
    released = nbformat.writes(course.notebook("release"))
    lines = solution_lines(course)
    assert len(lines) > 3
    assert not [line for line in lines if line in released]


def test_release_holds_no_hidden_test(course):
    released = nbformat.writes(course.notebook("release"))
    assert "HIDDEN TESTS" not in released
    assert "autograder" not in released


def test_release_folder_holds_the_notebook_alone(course):
    assert [path.name for path in (course.root / "release" / course.chapter).iterdir()] == ["views.ipynb"]


def test_untouched_solution_cells_raise_not_implemented(course):
    stubs = [c.source for c in course.notebook("release").cells if c.metadata.get("nbgrader", {}).get("solution")]
    assert stubs and all(
        stub.rstrip().endswith('raise NotImplementedError("write your code in place of this line")') for stub in stubs
    )


def test_an_edited_text_notebook_reaches_the_source(tmp_path):
    text = tmp_path / "exercises" / "views" / "notebook.py"
    text.parent.mkdir(parents=True)
    text.write_text((ROOT / "exercises" / "views" / "notebook.py").read_text())
    refresh_sources(tmp_path / "exercises", tmp_path)
    source = tmp_path / "source" / "views" / "views.ipynb"
    before = source.read_text()
    text.write_text(text.read_text().replace("# # Tensors are views", "# # Tensors are telescopes"))
    refresh_sources(tmp_path / "exercises", tmp_path)
    assert "telescopes" in source.read_text() and "telescopes" not in before


def validated(release: Path) -> str:
    """What nbgrader's Validate says of a notebook, in a JupyterLab that knows no course."""
    command = [sys.executable, "-m", "nbgrader", "validate", release.name]
    return subprocess.run(command, cwd=release.parent, capture_output=True, text=True).stdout


def test_validate_names_each_check_that_an_untouched_notebook_does_not_pass(course, tmp_path):
    copy = Path(shutil.copy(course.root / "release" / "views" / "views.ipynb", tmp_path))
    said = validated(copy)
    assert "VALIDATION FAILED ON 4 CELL(S)" in " ".join(said.split()) and "NotImplementedError" in said


def test_validate_has_nothing_to_say_of_right_answers(course, tmp_path):
    nbformat.write(course.answered(), tmp_path / "views.ipynb")
    assert validated(tmp_path / "views.ipynb") == "Success! Your notebook passes all the tests.\n"


@pytest.mark.audit
@pytest.mark.parametrize("chapter", in_the_book(ROOT / "exercises"))
def test_no_chapters_untouched_notebook_is_praised(tmp_path, chapter):
    course = Course(tmp_path / "course", chapter)
    assert "Success" not in validated(course.root / "release" / chapter / f"{chapter}.ipynb")
    nbformat.write(course.answered(), tmp_path / f"{chapter}.ipynb")
    assert "Success" in validated(tmp_path / f"{chapter}.ipynb")
