"""The text notebook of a chapter's exercises: the one source of all its forms."""

from copy import deepcopy
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from autograder.hidden_region import named_exercise


def read_text_notebook(path: Path) -> NotebookNode:
    """The notebook in a jupytext percent file, its cell ids derived from grade_id or position."""
    notebook = jupytext.read(path)
    for position, cell in enumerate(notebook.cells):
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell["id"] = (grade_id or f"cell-{position}").replace("_", "-")[:64]
    return notebook


def exercises_of(notebook: NotebookNode) -> list[tuple[str, str, float]]:
    """(grade_id, exercise name, points) of every graded cell that names an exercise, in order."""
    found = []
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        name = named_exercise(cell.source)
        if nbgrader.get("grade") and name:
            found.append((nbgrader["grade_id"], name, nbgrader["points"]))
    return found


def cell_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    """The cell with that grade_id. Raises LookupError when there is not exactly one."""
    found = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    if len(found) != 1:
        raise LookupError(f"{len(found)} cells have the grade_id {grade_id!r}; one is due")
    return found[0]


def solution_of(notebook: NotebookNode, grade_id: str) -> str:
    """The source of a solution cell as its author runs it, without the two marker lines."""
    lines = cell_of(notebook, grade_id).source.split("\n")
    return "\n".join(line for line in lines if line.strip() not in ("### BEGIN SOLUTION", "### END SOLUTION"))


def starter_of(notebook: NotebookNode, grade_id: str) -> str:
    """The source of a solution cell as nbgrader's ClearSolutions leaves it for the learner."""
    from nbgrader.preprocessors import ClearSolutions

    starter, _ = ClearSolutions().preprocess_cell(deepcopy(cell_of(notebook, grade_id)), {"language": "python"}, 0)
    return starter.source
