"""What ranks measure of each other: time in collectives, of which waiting is a part.

A collective begins for all of its ranks when the last one has come, and ends for all at once. A step has two meetings: one of each
tensor-parallel group, ``tp`` ranks that follow one another, and then one of each data-parallel group, the ranks with the same place in theirs.
"""

from collections.abc import Sequence
from statistics import median


def groups(ranks: int, tp: int) -> dict[str, list[list[int]]]:
    """The ranks that meet, by kind of meeting. Raises ValueError where ``tp`` does not divide them."""
    if tp < 1 or ranks % tp:
        raise ValueError(f"{ranks} ranks are not groups of {tp}")
    return {
        "tp": [list(range(first, first + tp)) for first in range(0, ranks, tp)],
        "dp": [list(range(place, ranks, tp)) for place in range(tp)],
    }


def met(arrive: Sequence[float], transfer: float) -> list[float]:
    """How long each rank is in a collective to which they come at these times."""
    return [max(arrive) - own + transfer for own in arrive]


def step(
    work: Sequence[float], tp: int, transfer: tuple[float, float], behind: Sequence[float] = ()
) -> dict[str, list[float]]:
    """Times of one step by rank: in the tp meeting, in the dp meeting, and the whole step.

    ``work``: of each rank before its tp meeting; ``behind``: of each tp group, between the two meetings.
    """
    meetings = groups(len(work), tp)
    times = {kind: [0.0] * len(work) for kind in meetings}
    at = list(work)
    for kind, last in zip(("tp", "dp"), transfer, strict=True):
        for number, group in enumerate(meetings[kind]):
            for rank, time in zip(group, met([at[rank] for rank in group], last), strict=True):
                times[kind][rank] = time
        at = [arrived + time for arrived, time in zip(at, times[kind], strict=True)]
        if kind == "tp" and behind:
            at = [arrived + behind[rank // tp] for rank, arrived in enumerate(at)]
    return times | {"step": [max(at)] * len(work)}


def holds_up(times: Sequence[float | None]) -> list[float] | None:
    """By how much each rank of a meeting delays the others: the second shortest time less the shortest, which is the last comer's.

    None where a time is missing, or nobody is met.
    """
    if len(times) < 2 or None in times:
        return None
    first, second = sorted(times)[:2]
    return [second - first if time == first else 0.0 for time in times]


def delays(rows: Sequence[Sequence[float | None]], meetings: Sequence[Sequence[int]]) -> list[float]:
    """Of each rank the median over the steps of what it delays its meeting by; 0 where nothing was measured."""
    found: dict[int, list[float]] = {rank: [] for group in meetings for rank in group}
    for row in rows:
        for group in meetings:
            for rank, delay in zip(group, holds_up([row[rank] for rank in group]) or (), strict=False):
                found[rank].append(delay)
    return [median(found[rank]) if found[rank] else 0.0 for rank in sorted(found)]
