"""The text notebook and the attempts beside it."""

import pytest

from autograder.authoring import mistake
from autograder.authoring.mistakes import load_attempts
from autograder.authoring.text import read_text_notebook, starter_of
from autograder.notebooks.cells import cell_of, exercises_of, solution_of

NOTEBOOK = '''# %% [markdown]
# ## `double(x)`

# %% nbgrader={"grade": false, "grade_id": "double", "locked": false, "schema_version": 3, "solution": true, "task": false}
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return helper(x)


def helper(x):
    return 2 * x
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "double_hidden", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
### BEGIN HIDDEN TESTS
import autograder; autograder.grade("sums.double")
### END HIDDEN TESTS
'''
MISTAKES = """
from autograder.authoring import alternative, edited, mistake

thrice = edited("double", {"2 * x": "3 * x"}, loses=("values",), because="two is taken for three")

@mistake("double", loses=("values", "types"), because="half is taken for double")
def half(x):
    return x / 2

@alternative("double")
def adds(x):
    return x + x

def half_helper():
    pass
"""


@pytest.fixture
def folder(tmp_path):
    chapter = tmp_path / "sums"
    chapter.mkdir()
    (chapter / "notebook.py").write_text(NOTEBOOK)
    (chapter / "mistakes.py").write_text(MISTAKES)
    return chapter


@pytest.fixture
def notebook(folder):
    return read_text_notebook(folder / "notebook.py")


def value_of(source: str):
    namespace: dict = {}
    exec(source, namespace)
    return namespace["double"](5)


def test_graded_cells_are_found_with_exercise_and_points(notebook):
    assert exercises_of(notebook) == [("double_hidden", "sums.double", 3)]


def test_the_solution_runs_and_shows_no_markers(notebook):
    source = solution_of(notebook, "double")
    assert value_of(source) == 10 and "SOLUTION" not in source


def test_the_starter_keeps_the_head_and_loses_the_helpers(notebook):
    source = starter_of(notebook, "double")
    assert '"""Twice x."""' in source and "helper" not in source
    with pytest.raises(NotImplementedError):
        value_of(source)


def test_making_the_starter_leaves_the_notebook_alone(notebook):
    starter_of(notebook, "double")
    assert "helper" in cell_of(notebook, "double").source


def test_a_cell_that_is_not_there_is_a_lookup_error(notebook):
    with pytest.raises(LookupError, match="0 cells"):
        cell_of(notebook, "triple")


def test_two_cells_of_one_name_are_a_lookup_error(notebook):
    notebook.cells.append(notebook.cells[1])
    with pytest.raises(LookupError, match="2 cells"):
        solution_of(notebook, "double")


def test_attempts_are_loaded_in_order_with_what_they_lose(folder):
    found = [(a.exercise, a.name, a.loses) for a in load_attempts(folder / "mistakes.py")]
    assert found == [
        ("double", "thrice", ("values",)),
        ("double", "half", ("values", "types")),
        ("double", "adds", ()),
    ]


def test_an_attempt_stands_in_for_the_solution_under_its_name(folder):
    cells = [attempt.as_cell() for attempt in load_attempts(folder / "mistakes.py")]
    assert [value_of(cell) for cell in cells] == [15, 2.5, 10]


def test_an_edit_of_a_text_that_is_not_in_the_solution_is_refused(folder):
    path = folder / "mistakes.py"
    path.write_text(path.read_text().replace('"2 * x"', '"4 * x"'))
    with pytest.raises(ValueError, match="expected once"):
        load_attempts(path)


@pytest.mark.parametrize(("loses", "because"), [((), "why"), (("values",), "")])
def test_a_mistake_without_loss_or_reason_is_refused(loses, because):
    with pytest.raises(ValueError, match="loses something"):
        mistake("double", loses=loses, because=because)
