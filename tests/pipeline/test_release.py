"""The notebooks that learners are given: no solution, no hidden test."""

import nbformat

from autograder.authoring.pipeline import refresh_sources
from tests.pipeline.conftest import ROOT


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
