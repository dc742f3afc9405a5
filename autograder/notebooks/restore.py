"""A learner's cells between the course's own, whatever was done to those."""

from nbformat import NotebookNode

from autograder.core.hidden_region import without_hidden_tests


def restore(nb: NotebookNode, released: dict[str, NotebookNode]) -> list[str]:
    """Put locked and graded cells of ``nb`` back as they were released; returns notes on what was found.

    ``released``: the cells that carry a grade_id, in order, hidden tests included. Learners keep
    their solution cells and any cells of their own. All cell metadata but nbgrader's own is
    dropped: a ``skip-execution`` tag would earn every point. A second cell with the same grade_id
    becomes an ordinary cell.
    """
    notes: list[str] = []
    seen: set[str] = set()
    cells = [_restored(cell, released, seen, notes) for cell in nb.cells]
    nb.cells = _with_missing(cells, released, seen, notes)
    return notes


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
