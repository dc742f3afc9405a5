"""The released notebooks of an assignment, as nbgrader recorded them."""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook, Notebook

from autograder.intake.released import Released


def released_notebooks(gradebook: Gradebook, assignment: str) -> dict[str, Released]:
    """By name."""
    return {notebook.name: Released(_cells(notebook)) for notebook in gradebook.find_assignment(assignment).notebooks}


def _cells(record: Notebook) -> dict[str, NotebookNode]:
    """Those that carry a grade_id, in order, hidden tests included."""
    points = {cell.name: cell.max_score for cell in [*record.grade_cells, *record.task_cells]}
    solutions = {cell.name for cell in record.solution_cells}
    graded = {cell.name for cell in record.grade_cells}
    tasks = {cell.name for cell in record.task_cells}
    released = {}
    for source in record.source_cells:
        new_cell = new_code_cell if source.cell_type == "code" else new_markdown_cell
        cell = new_cell(source.source or "")
        cell.metadata["nbgrader"] = NotebookNode(
            grade_id=source.name,
            grade=source.name in graded,
            solution=source.name in solutions,
            task=source.name in tasks,
            locked=source.locked,
            schema_version=3,
            cell_type=source.cell_type,
            checksum=source.checksum,
        )
        if source.name in points:
            cell.metadata["nbgrader"]["points"] = points[source.name]
        released[source.name] = cell
    return released
