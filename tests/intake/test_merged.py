"""Of several notebooks each exercise's answer is taken from the one that has it, and the page says which."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from autograder.intake.graded_form import answers_in, graded_form
from tests.intake.forms import STARTER, cell

COPIES = "def {name}(*given):\n    return 'copies'"
ALL = ("patchify", "compact", "to_tokens", "predict_view")


@pytest.fixture
def write(course, tmp_path):
    """A notebook with answers to the exercises that are named, and the course's own or others to them."""

    def write(file: str, *answered: str, **others: str) -> None:
        starters = {name: STARTER.format(name=name) for name in ALL if name not in answered}
        nbformat.write(course.answered(**(starters | others)), tmp_path / file)

    return write


@pytest.fixture
def found(views, tmp_path):
    return lambda: found_in(handed_in(tmp_path), "views", views)


def test_what_was_asked_for_lacks_is_taken_from_the_notebook_beside_it(write, found, views):
    write("views.ipynb", "patchify")
    write("views (1).ipynb", "compact", "to_tokens", "predict_view")
    assert found().notes == (
        "`views.ipynb` holds no answers to `predict_view`, `compact` and `to_tokens`: those of `views (1).ipynb` were graded.",
    )
    assert set(answers_in(found(), views)) >= set(ALL)


def test_what_it_answers_itself_counts(write, found, views):
    write("views.ipynb", "patchify", patchify=COPIES.format(name="patchify"))
    write("views (1).ipynb", *ALL)
    assert found().notes[0].endswith("Where both answer, `views.ipynb` counts.")
    assert answers_in(found(), views)["patchify"] == COPIES.format(name="patchify")


def test_a_notebook_with_all_the_answers_is_left_alone(write, found):
    write("views.ipynb", *ALL)
    write("views (1).ipynb", *ALL, patchify=COPIES.format(name="patchify"))
    assert found().notes == ()


def test_helpers_come_along_and_what_nobody_asked_for_does_not(write, found, views, tmp_path, course):
    write("views.ipynb", "compact", "to_tokens", "predict_view")
    notebook = course.answered(compact=COPIES.format(name="compact"))
    at = notebook.cells.index(cell(notebook, "patchify"))
    notebook.cells.insert(at, new_code_cell("def helper(): return 1"))
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    graded, notes = graded_form(found(), views)
    sources = [one.source for one in graded.cells]
    assert sources.count("def helper(): return 1") == 1 and COPIES.format(name="compact") not in sources
    assert not [note for note in notes if "twice" in note or "Missing" in note or "is defined in" in note]


def test_a_copy_that_an_editor_keeps_completes_nothing(write, found, tmp_path):
    (tmp_path / ".ipynb_checkpoints").mkdir()
    write("views.ipynb", "patchify")
    write(".ipynb_checkpoints/views-checkpoint.ipynb", *ALL)
    assert found().notes == () and found().others == ()


def test_files_beside_each_of_them_are_found(write, found, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    write("a/views.ipynb", "patchify", "compact")
    write("b/views.ipynb", "to_tokens")
    read = found()
    assert {one.path.parent.name for one in (read, *read.others)} == {"a", "b"}
