"""The course's own cells as they were released, whatever was done to them."""

import ast
import re
from copy import deepcopy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.core.hidden_region import without_hidden_tests
from autograder.intake.identity import Recognised
from autograder.intake.released import Released, same_text

_FENCE = re.compile(r"\A\s*```\w*\n(.*?)\n?```\s*\Z", re.DOTALL)


class Numbers(dict[int, int]):
    """What learners count a cell as, from the top, by the object that stands for it."""

    def of(self, cell: NotebookNode) -> int:
        return self[id(cell)]


def put_back(
    cells: list[NotebookNode], released: Released, known: Recognised
) -> tuple[list[NotebookNode], list[str], Numbers]:
    """Locked and graded cells as released, answers as their learner wrote them, learners' own cells; notes; their numbers.

    All cell metadata but nbgrader's own is dropped: a ``skip-execution`` tag would earn every point.
    A second cell with the same grade_id becomes an ordinary one. What learners wrote into a locked cell of code
    stays, in a cell of their own: before a test, and behind any other.
    """
    notes = [
        f"The cell `{grade_id}` was there twice: the first one counts."
        for grade_id in dict.fromkeys(known.twice.values())
    ]
    answered = {answer for cell in cells if cell.cell_type == "code" for answer in released.answered_by(cell.source)}
    restored, numbers = list[NotebookNode](), Numbers()
    for index, cell in enumerate(cells):
        made = _restored(cell, known.of.get(index), released, answered, notes)
        numbers |= {id(one): index + 1 for one in made}
        restored += made
    return _with_missing(restored, released, known, notes), notes, numbers


def _restored(
    cell: NotebookNode, grade_id: str | None, released: Released, answered: set[str], notes: list[str]
) -> list[NotebookNode]:
    cell.metadata = NotebookNode()
    if grade_id is None:
        return [cell]
    original = deepcopy(released.cells[grade_id])
    if original.metadata["nbgrader"]["locked"]:
        return _locked(cell, original, grade_id, released, notes)
    if cell.cell_type != original.cell_type:
        if grade_id in answered:
            return [cell]  # an old attempt that was put aside
        fenced = _FENCE.match(cell.source)
        original.source = fenced[1] if fenced else cell.source
        return [original]
    cell.metadata["nbgrader"] = original.metadata["nbgrader"]
    return [cell]


def _locked(
    cell: NotebookNode, original: NotebookNode, grade_id: str, released: Released, notes: list[str]
) -> list[NotebookNode]:
    if same_text(without_hidden_tests(cell.source), released.texts[grade_id]):
        return [original]
    own = _surplus(cell.source, released.texts[grade_id]) if original.cell_type == cell.cell_type == "code" else ""
    kept = " What you wrote into it was run beside it." if own else ""
    notes.append(f"The locked cell `{grade_id}` was changed: the original was run.{kept}")
    if not own:
        return [original]
    is_a_test = grade_id in released.its_own
    return [new_code_cell(own), original] if is_a_test else [original, new_code_cell(own)]


def _surplus(source: str, text: str) -> str:
    """The statements of a changed cell that the released one does not have."""
    source = without_hidden_tests(source)
    try:
        given = {ast.dump(statement) for statement in ast.parse(text).body}
        own = [statement for statement in ast.parse(source).body if ast.dump(statement) not in given]
        return "\n\n".join(ast.get_source_segment(source, one, padded=True) or "" for one in map(_whole, own))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def _whole(statement: ast.stmt) -> ast.stmt:
    """With its decorators, which stand above the line at which Python says that a definition begins."""
    if decorators := getattr(statement, "decorator_list", []):
        statement.lineno = min(decorator.lineno for decorator in decorators)
        statement.col_offset = 0
    return statement


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
