"""Tests behind what they test: where learners put their answers, or the tests, elsewhere than the release has them."""

from nbformat import NotebookNode

from autograder.intake.names import facts
from autograder.intake.put_back import Numbers
from autograder.intake.released import Released

Cells = list[NotebookNode]


def in_order(cells: Cells, released: Released, numbers: Numbers) -> tuple[Cells, list[str]]:
    """The cells, each function's checks and tests behind the cell that defines it; notes on what was moved and what counts.

    ``cells``: the course's own carry their metadata, all others are learners'. Learners' cells keep their order, so that
    what ran from top to bottom still does; but for starters that would undo an answer, and an answer that cannot be
    defined where it stands.
    """
    notes, moved = list[str](), list[str]()
    cells = _with_the_setup_first(cells, released)
    for answer in released.functions:
        cells, was_moved = _with_tests_behind(cells, released, answer, numbers, notes)
        moved += [released.functions[answer]] * was_moved
    return cells, [*_were_moved(moved), *notes]


def counting_cell(cells: Cells, released: Released, answer: str) -> NotebookNode | None:
    """Where the answer's own cell holds work, that; otherwise the last cell above the tests that does, or else the last below.

    The starter where no cell does; None where that is missing, too.
    """
    holders, own = _holders(cells, released, answer), _own(cells, answer)
    if not holders or any(cell is own for cell in holders):
        return own
    tests = _tests(cells, released, answer)
    above = [cell for cell in holders if tests and _index(cells, cell) < _index(cells, tests[-1])]
    return (above or holders)[-1]


def _holders(cells: Cells, released: Released, answer: str) -> Cells:
    """The learner's cells that hold work for an answer; those that Python cannot read only where no other does."""
    found = [cell for cell in cells if _is_learners(cell, released) and released.is_answer(answer, cell.source)]
    return [cell for cell in found if facts(cell.source).parsed] or found


def _with_tests_behind(
    cells: Cells, released: Released, answer: str, numbers: Numbers, notes: list[str]
) -> tuple[Cells, bool]:
    """Also whether its tests were moved."""
    holders, tests = _holders(cells, released, answer), _tests(cells, released, answer)
    counts = counting_cell(cells, released, answer)
    if not holders or not tests or counts is None:
        return cells, False
    function = released.functions[answer]
    cells = _starters_before(cells, released, function, counts)
    cells = _behind_what_defines_it(cells, released, counts)
    last = _last_needed(cells, counts, tests, function, released)
    early = [cell for cell in tests if _index(cells, cell) < last]
    if early:
        cells = _moved(cells, early, behind=_last_test_behind(cells, cells[last], released))
    notes += _several(cells, holders, tests, function, numbers)
    return cells, bool(early)


def _were_moved(functions: list[str]) -> list[str]:
    """One sentence, however many they are."""
    if not functions:
        return []
    *others, last = (f"`{function}`" for function in functions)
    if not others:
        return [f"The tests of {last} stood above its code: they were run behind it."]
    return [f"The tests of {', '.join(others)} and {last} stood above their code: they were run behind it."]


def _last_test_behind(cells: Cells, one: NotebookNode, released: Released) -> NotebookNode:
    """The last of the tests that stand directly behind a cell, or that cell: the tests of what it defines stay in the release's order."""
    tests = {test for of_one in released.tests.values() for test in of_one}
    for cell in cells[_index(cells, one) + 1 :]:
        if _grade_id(cell) not in tests:
            break
        one = cell
    return one


def _with_the_setup_first(cells: Cells, released: Released) -> Cells:
    """What the release imports before its first answer stands above every learner's answer."""
    setup = []
    for grade_id, cell in released.cells.items():
        if not released.is_locked(grade_id):
            break
        setup += [one for one in cells if _grade_id(one) == grade_id and cell.cell_type == "code"]
    answers = [
        index for index, cell in enumerate(cells) if _is_learners(cell, released) and released.answered_by(cell.source)
    ]
    late = [cell for cell in setup if answers and _index(cells, cell) > answers[0]]
    if not late:
        return cells
    others = [cell for cell in cells if not _is_in(cell, late)]
    return [*others[: answers[0]], *late, *others[answers[0] :]]


def _starters_before(cells: Cells, released: Released, function: str, counts: NotebookNode) -> Cells:
    """A starter that was left behind the answer would define its function anew."""
    at = _index(cells, counts)
    left = [
        cell for cell in cells[at + 1 :] if _is_learners(cell, released) and facts(cell.source).is_starter(function)
    ]
    others = [cell for cell in cells if not _is_in(cell, left)]
    return [*others[:at], *left, *others[at:]]


def _behind_what_defines_it(cells: Cells, released: Released, counts: NotebookNode) -> Cells:
    """``patchify = mine``, or a decorator, with its definition further down."""
    at = _index(cells, counts)
    wanted = facts(counts.source).wanted_at_once - _known(cells[:at])
    below = [cell for cell in cells[at + 1 :] if _is_learners(cell, released) and wanted & _brought(cell)]
    if not below or _may_bind_unseen(cells[:at]):
        return cells
    return _moved(cells, [counts], behind=below[0])


def _last_needed(cells: Cells, counts: NotebookNode, tests: Cells, function: str, released: Released) -> int:
    """The index of the answer, or of the last of the cells below the tests that define what it cannot do without."""
    last = _index(cells, counts)
    first_test = min(_index(cells, test) for test in tests)
    above = cells[: max(last, first_test) + 1]
    if _may_bind_unseen(above):
        return last
    wanted = set(facts(counts.source).wanted_later)
    for cell in above:  # what the answer calls may need more
        if cell.cell_type == "code" and wanted & _brought(cell):
            wanted |= facts(cell.source).wanted_later
    known = _known(above)
    for index in range(len(above), len(cells)):
        cell = cells[index]
        if not _is_learners(cell, released):
            continue
        if function in facts(cell.source).bound:
            break
        if (wanted - known) & (brings := _brought(cell)):
            last, known, wanted = index, known | brings, wanted | facts(cell.source).wanted_later
    return last


def _may_bind_unseen(cells: Cells) -> bool:
    return any(facts(cell.source).opaque for cell in cells if cell.cell_type == "code")


def _known(cells: Cells) -> set[str]:
    return set().union(*map(_brought, cells))


def _brought(cell: NotebookNode) -> set[str]:
    """The names that a cell binds for others, but for those that a starter alone holds."""
    if cell.cell_type != "code":
        return set()
    said = facts(cell.source)
    return {name for name in said.bound if not said.is_starter(name)}


def _several(cells: Cells, holders: Cells, tests: Cells, function: str, numbers: Numbers) -> list[str]:
    """A sentence where learners wrote a function more than once, and not alike."""
    if len({cell.source.strip() for cell in holders}) < 2:
        return []
    before = [cell for cell in holders if _index(cells, cell) < _index(cells, tests[-1])]
    counted = numbers.of(max(before, key=lambda cell: _index(cells, cell)))
    where = [str(number) for number in sorted(numbers.of(cell) for cell in holders)]
    shown = " and ".join(where if len(where) < 7 else [*where[:5], f"{len(where) - 5} more"])
    return [f"`{function}` is defined in cells {shown} from the top: cell {counted} counted."]


def _tests(cells: Cells, released: Released, answer: str) -> Cells:
    return [cell for cell in cells if _grade_id(cell) in released.tests[answer]]


def _own(cells: Cells, answer: str) -> NotebookNode | None:
    return next((cell for cell in cells if _grade_id(cell) == answer), None)


def _is_learners(cell: NotebookNode, released: Released) -> bool:
    grade_id = _grade_id(cell)
    return cell.cell_type == "code" and (grade_id is None or not released.is_locked(grade_id))


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _moved(cells: Cells, some: Cells, behind: NotebookNode) -> Cells:
    others = [cell for cell in cells if not _is_in(cell, some)]
    at = _index(others, behind) + 1
    return [*others[:at], *some, *others[at:]]


def _is_in(cell: NotebookNode, cells: Cells) -> bool:
    return any(cell is one for one in cells)


def _index(cells: Cells, one: NotebookNode) -> int:
    return next(index for index, cell in enumerate(cells) if cell is one)
