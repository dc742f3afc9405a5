"""A notebook's cells, run in this process one after the other: for authors, and for the course's own solutions."""

import contextlib
import io
import linecache
from collections.abc import Iterator

from nbformat import NotebookNode


def run_notebook(
    notebook: NotebookNode, answers: dict[str, str], until: str | None = None, above: tuple[str, dict] | None = None
) -> tuple[dict, dict[str, Exception]]:
    """Run every cell but the graded ones, as grading does: a cell that fails stops no other.

    ``answers``: sources for solution cells, by grade_id; the author's own for the others.
    ``until``: the grade_id of the cell to stop at. ``above``: the grade_id of the cell to begin at, and the namespace that
    the cells above it left. Returns the namespace, and what each failing cell raised by grade_id.
    """
    first, namespace = above or (None, {"__name__": "__main__"})
    failed: dict[str, Exception] = {}
    sources = list(_sources(notebook, answers, until))
    begin = [grade_id for grade_id, _ in sources].index(first) if above else 0
    for grade_id, source in sources[begin:]:
        if error := run_cell(grade_id, source, namespace):
            failed[grade_id] = error
    return namespace, failed


def run_cell(grade_id: str, source: str, namespace: dict) -> Exception | None:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(compile(source, _readable(grade_id, source), "exec"), namespace)
        except Exception as error:
            return error
    return None


def _readable(grade_id: str, source: str) -> str:
    """A file name under which the text of a cell is found: a kernel is compiled from its source."""
    name = f"<{grade_id} {hash(source):x}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return name


def _sources(notebook: NotebookNode, answers: dict[str, str], until: str | None) -> Iterator[tuple[str, str]]:
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if until is not None and nbgrader.get("grade_id") == until:
            return
        if cell.cell_type == "code" and not nbgrader.get("grade"):
            grade_id = nbgrader.get("grade_id", cell["id"])
            yield grade_id, answers.get(grade_id, cell.source)
