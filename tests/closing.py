"""The closing lines of a run: where its time went, and what came of it."""

from itertools import zip_longest

from tests.budgets import by_payer
from tests.outcomes import FAILED, NOT_RUN, PASSED, SKIPPED, Test

DEAREST = 10
PHASES = ("environment", "book", "tests", "tests again")
NEEDS_NOTHING = "not needed"


def spent(phases: dict[str, dict[str, float]], tests: dict[str, Test]) -> list[str]:
    """A table: each phase, each chapter and room, the dearest tests."""
    lines = [f"{'seconds of':28}{'wall':>7}{'proc.':>7}", *(_phase(name, phases.get(name)) for name in PHASES)]
    if costs := [test.cost for test in tests.values() if test.cost]:
        lines += [*_side_by_side([_payer(name, one) for name, one in by_payer(costs).items()])]
        lines += [f"{'wall':>7}{'proc.':>7}  the dearest tests"]
        lines += [f"{wall_s:7.0f}{cpu_s:7.1f}  {name}" for name, cpu_s, wall_s in dearest(tests)]
    return lines


def _payer(name: str, one: dict[str, float]) -> str:
    return f"{name:24}{one['tests']:6.0f}{one['wall_s']:7.0f}{one['cpu_s']:7.0f}"


def _side_by_side(lines: list[str]) -> list[str]:
    half, head = (len(lines) + 1) // 2, f"{'':24}{'tests':>6}{'wall':>7}{'proc.':>7}"
    pairs = zip_longest([head, *lines[:half]], [head, *lines[half:]], fillvalue="")
    return [f"{left}   {right}".rstrip() for left, right in pairs]


def _phase(name: str, took: dict[str, float] | None) -> str:
    return f"{name:28}{took['wall_s']:7.0f}{took['cpu_s']:7.0f}" if took else f"{name:28}{0:7}{0:7}   {NEEDS_NOTHING}"


def dearest(tests: dict[str, Test]) -> list[tuple[str, float, float]]:
    """Name, seconds of processor time and of the clock."""
    known = [(name, *test.cost[1:]) for name, test in tests.items() if test.cost]
    return sorted(known, key=lambda one: -one[1])[:DEAREST]


def came(tests: dict[str, Test], unsteady: dict[str, Test]) -> list[str]:
    """What failed twice, what is unsteady, and on the last line how many passed and failed.

    ``tests``: what came of each in the end. ``unsteady``: what was said of them the first time.
    """
    count = {word: sum(test.came == word for test in tests.values()) for word in (PASSED, FAILED, SKIPPED, NOT_RUN)}
    return [
        *(f"FAILED {name} - {first_line(test)}" for name, test in tests.items() if test.came == FAILED),
        *(
            f"unsteady: {name} failed among others ({first_line(test)}) and passed alone"
            for name, test in unsteady.items()
        ),
        *([f"{count[SKIPPED]} skipped"] if count[SKIPPED] else []),
        *([f"{count[NOT_RUN]} not run, though they were to be"] if count[NOT_RUN] else []),
        f"{count[PASSED]} passed, {count[FAILED]} failed",
    ]


def first_line(test: Test) -> str:
    return test.said.partition("\n")[0][:160]
