"""Makes a submission's notebook one that can be graded: the course's cells as they were."""

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.hidden_region import without_hidden_tests
from autograder.ledger import Ledger


class Restore(NbGraderPreprocessor):
    """Puts locked and graded cells back as they were released, whatever was done to them.

    Learners keep their solution cells and any cells of their own. All cell metadata but
    nbgrader's own is dropped: a ``skip-execution`` tag would earn every point. A second cell
    with the same grade_id becomes an ordinary cell.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as gradebook:
            released = _released_cells(gradebook, where["notebook"], where["assignment"])
        notes: list[str] = []
        seen: set[str] = set()
        cells = [_restored(cell, released, seen, notes) for cell in nb.cells]
        nb.cells = _with_missing(cells, released, seen, notes)
        ledger = Ledger.of_course()
        for note in notes:
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


def _restored(cell: NotebookNode, released: dict, seen: set[str], notes: list[str]) -> NotebookNode:
    nbgrader = cell.metadata.get("nbgrader")
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    cell.metadata = NotebookNode()
    original = released.get(grade_id) if isinstance(grade_id, str) else None
    if original is None:
        return cell
    if grade_id in seen:
        notes.append(f"The cell `{grade_id}` was there twice: the first one counts.")
        return cell
    seen.add(grade_id)
    if original.metadata["nbgrader"]["locked"]:
        if without_hidden_tests(cell.source) != without_hidden_tests(original.source):
            notes.append(f"The locked cell `{grade_id}` was changed: the original was run.")
        return original
    if cell.cell_type != original.cell_type:
        original.source = cell.source
        return original
    cell.metadata["nbgrader"] = original.metadata["nbgrader"]
    return cell


def _with_missing(cells: list, released: dict, seen: set[str], notes: list[str]) -> list:
    """Each missing locked cell goes behind the released cell that came before it."""
    missing = [grade_id for grade_id in released if grade_id not in seen]
    if missing:
        notes.append(_missing_in_words(missing, empty=not cells))
    previous = None
    for grade_id, original in released.items():
        if grade_id in missing:
            if not original.metadata["nbgrader"]["locked"]:
                continue
            cells.insert(_index_after(cells, previous), original)
        previous = grade_id
    return cells


def _missing_in_words(missing: list[str], empty: bool) -> str:
    if empty:
        return "The notebook is empty."
    names = ", ".join(f"`{grade_id}`" for grade_id in missing)
    return f"Missing from the notebook: {names}. Locked cells were put back."


def _index_after(cells: list, grade_id: str | None) -> int:
    for index, cell in enumerate(cells):
        if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id and grade_id:
            return index + 1
    return 0
