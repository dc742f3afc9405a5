"""An ordinary notebook is left as it is: with the course's solutions, and with every attempt that anybody has written."""

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.authoring.drafts import in_the_book
from autograder.core.hidden_region import without_hidden_tests
from autograder.intake.graded_form import graded_form
from autograder.intake.notebook_file import Read
from autograder.intake.released import Released
from autograder.misconceptions.corpus import CORPUS, read_corpus
from autograder.notebooks.cells import solution_of
from autograder.selfcheck.chapters import Chapter
from tests.pipeline.conftest import ROOT

CHAPTERS = in_the_book(ROOT / "exercises")


def handed_in(chapter: Chapter, **answers: str) -> list[NotebookNode]:
    """The cells of a learner's notebook: the course's solutions, those in ``answers`` replaced."""
    cells = []
    for cell in chapter.notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        source = without_hidden_tests(cell.source)
        if cell.metadata.get("nbgrader", {}).get("solution"):
            source = answers.get(grade_id, solution_of(chapter.notebook, grade_id))
        new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
        cells.append(new(source, metadata={"nbgrader": {"grade_id": grade_id}} if grade_id else {}))
    return cells


def taken(chapter: Chapter, released: Released, **answers: str) -> tuple[list[str], list[str]]:
    """The grade_ids in their order, and the notes."""
    notebook, notes = graded_form(Read(chapter.folder, "x.ipynb", handed_in(chapter, **answers)), released)
    return [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in notebook.cells], notes


@pytest.mark.parametrize("name", CHAPTERS)
def test_right_answers_stay_where_they_are_and_nothing_is_said(name):
    chapter = Chapter(ROOT / "exercises" / name)
    order, notes = taken(chapter, Released(chapter.released()))
    assert notes == []
    assert order == [cell.metadata.get("nbgrader", {}).get("grade_id", "") for cell in chapter.notebook.cells]


@pytest.mark.audit
@pytest.mark.parametrize("name", CHAPTERS)
def test_no_attempt_moves_anything(name):
    chapter = Chapter(ROOT / "exercises" / name)
    released = Released(chapter.released())
    order, _ = taken(chapter, released)
    moved = {}
    for attempt in read_corpus(chapter.folder / CORPUS):
        found, notes = taken(chapter, released, **{attempt.function: attempt.source})
        if found != order or notes:
            moved[f"{attempt.function} {attempt.name}"] = notes
    assert moved == {}
