"""A submitted notebook before it runs: the course's cells are put back as they were."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from nbgrader.utils import is_grade

from autograder.intake.graded_form import graded_form
from autograder.intake.notebook_file import read


@pytest.fixture
def restored(views, tmp_path):
    """The form in which a notebook is graded, and the notes on it."""

    def restore(notebook):
        path = tmp_path / "views.ipynb"
        path.write_text(nbformat.writes(notebook))
        return graded_form(read(path, path.name), views)

    return restore


def graded(notebook):
    return [cell for cell in notebook.cells if is_grade(cell) and cell.metadata["nbgrader"]["points"]]


def test_an_honest_notebook_is_left_as_it_is_without_a_note(course, restored):
    notebook, notes = restored(course.answered())
    assert notes == []
    assert [cell.cell_type for cell in notebook.cells] == [cell.cell_type for cell in course.notebook("source").cells]


def test_hidden_tests_come_back_into_graded_cells(course, restored):
    notebook, _ = restored(course.answered())
    assert all("autograder.grade(" in cell.source for cell in graded(notebook))


def test_tags_are_dropped_so_that_no_cell_can_ask_to_be_skipped(course, restored):
    notebook = course.answered()
    for cell in notebook.cells:
        cell.metadata["tags"] = ["skip-execution"]
    notebook, _ = restored(notebook)
    assert not [cell for cell in notebook.cells if "tags" in cell.metadata]


def test_a_second_cell_with_the_same_grade_id_becomes_an_ordinary_cell(course, restored):
    notebook = course.answered()
    notebook.cells.append(copy.deepcopy(graded(notebook)[0]))
    notebook, notes = restored(notebook)
    assert len(graded(notebook)) == len(course.full_marks())
    assert "twice" in notes[0]


def test_a_deleted_graded_cell_is_put_back_behind_its_solution(course, restored):
    notebook = course.answered()
    order = [cell.metadata["nbgrader"]["grade_id"] for cell in graded(notebook)]
    notebook.cells.remove(graded(notebook)[0])
    notebook, notes = restored(notebook)
    assert [cell.metadata["nbgrader"]["grade_id"] for cell in graded(notebook)] == order
    assert notes[0].startswith("Missing")


def test_an_empty_notebook_gets_all_graded_cells(course, restored):
    notebook, _ = restored(new_notebook())
    assert len(graded(notebook)) == len(course.full_marks())


def test_an_edited_graded_cell_is_undone_and_said(course, restored):
    notebook = course.answered()
    graded(notebook)[0].source = "print(100)"
    notebook, notes = restored(notebook)
    assert "autograder.grade(" in graded(notebook)[0].source
    assert "was changed" in notes[0]


def test_a_graded_cell_turned_into_text_or_a_solution_is_undone(course, restored):
    notebook = course.answered()
    first, second = graded(notebook)[:2]
    first.cell_type = "markdown"
    second.metadata["nbgrader"] |= {"grade": False, "solution": True, "locked": False, "points": 1000}
    notebook, _ = restored(notebook)
    points = {cell.metadata["nbgrader"]["grade_id"]: cell.metadata["nbgrader"]["points"] for cell in graded(notebook)}
    assert points == course.full_marks()


def test_a_learners_own_cells_stay(course, restored):
    notebook = course.answered()
    notebook.cells.insert(0, new_code_cell("def my_helper(): return 1"))
    notebook, notes = restored(notebook)
    assert notebook.cells[0].source == "def my_helper(): return 1" and notes == []


def test_unknown_nbgrader_metadata_is_dropped(course, restored):
    notebook = course.answered()
    notebook.cells.append(new_code_cell("1", metadata={"nbgrader": {"grade_id": "mine", "grade": True, "points": 50}}))
    notebook, _ = restored(notebook)
    assert "nbgrader" not in notebook.cells[-1].metadata
