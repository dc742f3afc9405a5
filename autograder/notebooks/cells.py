"""The cells of an exercise's notebook, by their grade_id."""

from nbformat import NotebookNode

from autograder.core.hidden_region import BEGIN_SOLUTION, END_SOLUTION, named_exercise


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
        raise LookupError(f"{len(found)} cells have the grade_id {grade_id!r}; expected one")
    return found[0]


def solution_of(notebook: NotebookNode, grade_id: str) -> str:
    """The source of a solution cell as its author runs it, without the two marker lines."""
    lines = cell_of(notebook, grade_id).source.split("\n")
    return "\n".join(line for line in lines if line.strip() not in (BEGIN_SOLUTION, END_SOLUTION))
