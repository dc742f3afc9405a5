"""Makes a submission's notebook one that can be graded: the course's cells as they were."""

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.core.ledger import Ledger
from autograder.notebooks.restore import restore


class Restore(NbGraderPreprocessor):
    """Puts locked and graded cells back as they were released, whatever was done to them.

    See :func:`autograder.notebooks.restore.restore`.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as gradebook:
            released = _released_cells(gradebook, where["notebook"], where["assignment"])
        ledger = Ledger.of_course()
        for note in restore(nb, released):
            ledger.note(resources, note)
        return nb, resources


def _released_cells(gradebook: Gradebook, notebook: str, assignment: str) -> dict[str, NotebookNode]:
    """The released cells that carry a grade_id, in order, as nbgrader recorded them."""
    record = gradebook.find_notebook(notebook, assignment)
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
