"""Tests behind what they test: where learners put their answers, or the tests, elsewhere than the release has them."""

from nbformat import NotebookNode

from autograder.intake import names
from autograder.intake.released import Released


def in_order(
    cells: list[NotebookNode], released: Released, numbers: dict[int, int]
) -> tuple[list[NotebookNode], list[str]]:
    """The cells, each function's checks and tests behind the cell that defines it; notes on what was moved and what counts.

    ``cells``: the course's own carry their metadata, all others are learners'. ``numbers``: of a cell, by its identity,
    what learners count it as. Learners' cells keep their order, so that what ran from top to bottom still does.
    """
    notes: list[str] = []
    for answer in released.functions:
        cells = _with_tests_behind(cells, released, answer, numbers, notes)
    return cells, notes


def counting_cell(cells: list[NotebookNode], released: Released, answer: str) -> NotebookNode | None:
    """Where the answer's own cell holds work, that; otherwise the last cell that does; otherwise the starter, or None."""
    holders, own = _holders(cells, released, answer), _own(cells, answer)
    return own if any(cell is own for cell in holders) or not holders else holders[-1]


def _holders(cells: list[NotebookNode], released: Released, answer: str) -> list[NotebookNode]:
    return [cell for cell in cells if _is_learners(cell, released) and released.is_answer(answer, cell.source)]


def _own(cells: list[NotebookNode], answer: str) -> NotebookNode | None:
    return next((cell for cell in cells if _grade_id(cell) == answer), None)


def _with_tests_behind(
    cells: list[NotebookNode], released: Released, answer: str, numbers: dict[int, int], notes: list[str]
) -> list[NotebookNode]:
    """For one answer."""
    holders = _holders(cells, released, answer)
    tests = [cell for cell in cells if _grade_id(cell) in released.tests[answer]]
    if not holders or not tests:
        return cells
    own = _own(cells, answer)
    counts = counting_cell(cells, released, answer)
    if own is not None and own is not counts:
        cells = _starter_before(cells, own, counts)
    last = _last_needed(cells, counts, _index(cells, tests[-1]), released)
    early = [cell for cell in tests if _index(cells, cell) < last]
    if early:
        behind = cells[last]
        cells = [cell for cell in cells if not any(cell is one for one in early)]
        at = _index(cells, behind) + 1
        cells = [*cells[:at], *early, *cells[at:]]
        notes.append(f"The tests of `{released.functions[answer]}` stood above its code: they were run behind it.")
    notes += _several(cells, holders, tests, released.functions[answer], numbers)
    return cells


def _starter_before(cells: list[NotebookNode], starter: NotebookNode, counts: NotebookNode) -> list[NotebookNode]:
    """A starter that was left behind the answer would define its function anew."""
    if _index(cells, starter) < _index(cells, counts):
        return cells
    others = [cell for cell in cells if cell is not starter]
    at = _index(others, counts)
    return [*others[:at], starter, *others[at:]]


def _last_needed(cells: list[NotebookNode], counts: NotebookNode, tests_at: int, released: Released) -> int:
    """The index of the answer, or of the last of the cells below the tests that define what it cannot do without."""
    last = _index(cells, counts)
    wanted = names.needed(counts.source)
    known = {
        name for cell in cells[: max(last, tests_at)] if cell.cell_type == "code" for name in names.defined(cell.source)
    }
    for index in range(max(last, tests_at) + 1, len(cells)):
        cell = cells[index]
        if _is_learners(cell, released) and (wanted - known) & (brings := names.defined(cell.source)):
            last, known, wanted = index, known | brings, wanted | names.needed(cell.source)
    return last


def _several(
    cells: list[NotebookNode],
    holders: list[NotebookNode],
    tests: list[NotebookNode],
    function: str,
    numbers: dict[int, int],
) -> list[str]:
    """A sentence where learners wrote a function more than once, and not alike."""
    if len({cell.source.strip() for cell in holders}) < 2:
        return []
    before = [cell for cell in holders if _index(cells, cell) < _index(cells, tests[-1])]
    counted = max(before, key=lambda cell: _index(cells, cell))
    where = " and ".join(str(number) for number in sorted(numbers[id(cell)] for cell in holders))
    return [f"`{function}` is defined in cells {where} from the top: cell {numbers[id(counted)]} counted."]


def _is_learners(cell: NotebookNode, released: Released) -> bool:
    grade_id = _grade_id(cell)
    return cell.cell_type == "code" and (grade_id is None or not released.is_locked(grade_id))


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _index(cells: list[NotebookNode], one: NotebookNode) -> int:
    return next(index for index, cell in enumerate(cells) if cell is one)
