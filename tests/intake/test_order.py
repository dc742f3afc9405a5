"""Which of several answers counts, and where its tests run."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from autograder.intake.files import handed_in
from autograder.intake.found import found_in
from autograder.intake.graded_form import graded_form
from autograder.intake.notebook_file import Read
from tests.intake.forms import STARTER, cell, grade_id

COPIES = "def patchify(images, patch):\n    return images.clone()"


@pytest.fixture
def taken(course, views, tmp_path):
    """The notes on an answered notebook to which a test has done something, and its cells by name or first line."""

    def take(change):
        notebook = course.answered()
        change(notebook)
        graded, notes = graded_form(Read(tmp_path, "views.ipynb", notebook.cells), views)
        return [grade_id(one) or one.source.split("\n")[0] for one in graded.cells], notes

    return take


def test_a_notebook_as_it_was_released_is_in_order(taken, course):
    names, notes = taken(lambda notebook: None)
    assert notes == []
    assert names == [grade_id(one) or one.source.split("\n")[0] for one in course.answered().cells]


def test_of_two_answers_above_the_tests_the_last_counts_as_in_python_and_both_are_named(taken):
    def change(notebook):
        at = notebook.cells.index(cell(notebook, "patchify"))
        notebook.cells.insert(at + 1, new_code_cell(COPIES))

    _, notes = taken(change)
    (said,) = [note for note in notes if "patchify" in note]
    first, last, counted = map(int, re.findall(r"\d+", said))
    assert said == f"`patchify` is defined in cells {first} and {last} from the top: cell {counted} counted."
    assert counted == last == first + 1


def test_an_answer_in_its_own_cell_counts_and_not_a_try_below_the_tests(taken):
    names, notes = taken(lambda notebook: notebook.cells.append(new_code_cell(COPIES)))
    assert names.index("patchify_hidden") < names.index("def patchify(images, patch):")
    assert notes[0].endswith("counted.") and not notes[0].endswith(f"cell {len(names)} counted.")


def test_a_starter_below_the_answer_does_not_undo_it(taken):
    def change(notebook):
        starter = cell(notebook, "patchify")
        notebook.cells.insert(2, new_code_cell(starter.source.replace("def patchify", "# mine\ndef patchify")))
        starter.source = STARTER.format(name="patchify")

    names, _ = taken(change)
    assert names.index("patchify") < names.index("# mine") < names.index("patchify_hidden")


def test_tests_go_behind_a_helper_that_the_answer_cannot_do_without_and_not_behind_other_cells(taken):
    def change(notebook):
        cell(notebook, "patchify").source = "def patchify(images, patch):\n    return helper(images, patch)"
        notebook.cells += [
            new_code_cell("def helper(x, y): return scale(x)"),
            new_code_cell("scale = abs"),
            new_code_cell("x = 1"),
        ]

    names, notes = taken(change)
    assert names[-4:] == ["scale = abs", "patchify_seen", "patchify_hidden", "x = 1"]
    assert notes == ["The tests of `patchify` stood above its code: they were run behind it."]


def test_of_several_functions_behind_one_cell_the_tests_stay_in_order_and_one_sentence_says_it(taken, course):
    def change(notebook):
        answers = [one for one in notebook.cells if one.metadata.get("nbgrader", {}).get("solution")]
        notebook.cells.append(new_code_cell("# all\n" + "\n\n\n".join(one.source for one in answers)))
        for one in answers:
            one.source = STARTER.format(name=grade_id(one))

    names, notes = taken(change)
    released = [grade_id(one) for one in course.notebook("release").cells]
    tests = [name for name in released if name.endswith(("_seen", "_hidden"))]
    assert names[names.index("# all") + 1 :] == tests
    functions = [name.removesuffix("_hidden") for name in tests if name.endswith("_hidden")]
    assert [note for note in notes if "stood above" in note] == [
        f"The tests of `{functions[0]}`, `{functions[1]}`, `{functions[2]}` and `{functions[3]}` stood above their code: "
        "they were run behind it."
    ]


def test_a_name_that_only_happens_to_be_bound_below_moves_nothing(taken):
    names, notes = taken(lambda notebook: notebook.cells.append(new_code_cell("math = torch = images = patch = 1")))
    assert names[-2] == "to_tokens_hidden" and notes == []


def test_what_python_cannot_parse_is_no_obstacle(taken):
    names, notes = taken(lambda notebook: notebook.cells.append(new_code_cell("def broken(:\n!ls\n%time x")))
    assert names[-1] == "def broken(:" and notes == []


def test_of_two_notebooks_under_other_names_both_are_named(course, views, tmp_path):
    for name in ("views (1).ipynb", "views (2).ipynb"):
        nbformat.write(course.answered(), tmp_path / name)
    notes = " ".join(found_in(handed_in(tmp_path), "views", views).notes)
    assert "`views (1).ipynb`" in notes and "`views (2).ipynb`" in notes and "were not graded" in notes
