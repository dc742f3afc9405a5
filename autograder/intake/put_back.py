"""The course's own cells as they were released, whatever was done to them."""

from copy import deepcopy

from nbformat import NotebookNode

from autograder.core.hidden_region import without_hidden_tests
from autograder.intake.identity import Recognised
from autograder.intake.released import Released, same_text


def put_back(cells: list[NotebookNode], released: Released, known: Recognised) -> tuple[list[NotebookNode], list[str]]:
    """Locked and graded cells as released, answers as their learner wrote them, learners' own cells; notes.

    All cell metadata but nbgrader's own is dropped: a ``skip-execution`` tag would earn every point.
    A second cell with the same grade_id becomes an ordinary one.
    """
    notes = [f"The cell `{grade_id}` was there twice: the first one counts." for grade_id in known.twice.values()]
    restored = [_restored(cell, known.of.get(index), released, notes) for index, cell in enumerate(cells)]
    return _with_missing(restored, released, known, notes), notes


def _restored(cell: NotebookNode, grade_id: str | None, released: Released, notes: list[str]) -> NotebookNode:
    cell.metadata = NotebookNode()
    if grade_id is None:
        return cell
    original = deepcopy(released.cells[grade_id])
    if original.metadata["nbgrader"]["locked"]:
        if not same_text(without_hidden_tests(cell.source), released.texts[grade_id]):
            notes.append(f"The locked cell `{grade_id}` was changed: the original was run.")
        return original
    if cell.cell_type != original.cell_type:
        original.source = cell.source
        return original
    cell.metadata["nbgrader"] = original.metadata["nbgrader"]
    return cell


def _with_missing(cells: list, released: Released, known: Recognised, notes: list[str]) -> list[NotebookNode]:
    """Each missing locked cell goes behind the released cell that came before it."""
    missing = [grade_id for grade_id in released.cells if grade_id not in known.seen]
    if missing:
        notes.append(_missing_in_words(missing, empty=not cells))
    previous = None
    for grade_id, original in released.cells.items():
        if grade_id in missing:
            if not released.is_locked(grade_id):
                continue
            cells.insert(_index_after(cells, previous), deepcopy(original))
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
