"""Every exercise of the book passes every gate, each with a sample of its attempts; ``make audit`` tries them all."""

from functools import cache

from autograder.authoring.drafts import in_the_book, written
from autograder.authoring.text import read_text_notebook
from autograder.notebooks.cells import exercises_of
from tests.costs import was_spent_elsewhere
from tests.gates.audit_pending import NOT_YET_WITH_MANY_SEEDS
from tests.gates.small import EXERCISES, found_in


def pytest_generate_tests(metafunc):
    """Of the book's chapters, and of the draft that was asked for."""
    asked = {metafunc.config.option.chapter} & {*written(EXERCISES)}
    chapters = sorted({*in_the_book(EXERCISES)} | asked)
    if "exercise" in metafunc.fixturenames:
        metafunc.parametrize("exercise", [name for chapter in chapters for name in exercises_in(chapter)])
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", chapters)


@cache
def notebook(chapter: str):
    return read_text_notebook(EXERCISES / chapter / "notebook.py")


def exercises_in(chapter: str) -> list[str]:
    return [name for _, name, _ in exercises_of(notebook(chapter))]


def test_an_exercise_passes_every_gate(exercise, request):
    found, cpu_s = found_in(exercise)
    was_spent_elsewhere(request.node, cpu_s)
    assert found == []


def test_what_was_not_yet_tried_is_an_exercise_of_the_book():
    assert {name for chapter in in_the_book(EXERCISES) for name in exercises_in(chapter)} >= NOT_YET_WITH_MANY_SEEDS


def test_every_chapter_grades_an_exercise(chapter):
    assert exercises_in(chapter)


def test_every_solution_cell_is_graded(chapter):
    marked = [cell.metadata.get("nbgrader", {}) for cell in notebook(chapter).cells]
    solutions = {one["grade_id"] for one in marked if one.get("solution")}
    assert solutions == {name.partition(".")[2] for name in exercises_in(chapter)}
