"""The text notebook of a chapter's exercises."""

import pytest

from autograder.authoring.clauses import statement
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


@pytest.fixture
def folder(tmp_path):
    chapter = tmp_path / "sums"
    chapter.mkdir()
    (chapter / "notebook.py").write_text(NOTEBOOK)
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


def test_the_tags_of_clauses_are_there_for_authors_and_for_nobody_else(folder):
    text = (
        (folder / "notebook.py")
        .read_text()
        .replace("# ## `double(x)`", "# ## `double(x)`\n#\n# - [c1] returns 2x; [c2] any [dtype].")
    )
    (folder / "notebook.py").write_text(text)
    assert read_text_notebook(folder / "notebook.py").cells[0].source.endswith("- returns 2x; any [dtype].")
    tagged = read_text_notebook(folder / "notebook.py", tags=True)
    assert statement(tagged, "double").clauses == {"c1": "returns 2x;", "c2": "any [dtype]."}
