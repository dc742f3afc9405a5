"""What verdicts of exercises with ranks have in common."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from autograder.boards import Crossed, Crossing

_DEFAULT_GROUP = "0"


def is_of_all(crossing: Crossing, ranks: int) -> bool:
    """Whether it crossed between all ranks of the case, in the default process group."""
    return crossing.entry.group == _DEFAULT_GROUP and crossing.entry.ranks == tuple(range(ranks))


@dataclass(frozen=True)
class Launch:
    """A rank's part in what crossed: what it handed in, and when, by the switchboard's count of that rank's wishes."""

    crossing: Crossing
    at: int
    given: bytes

    @property
    def operation(self) -> str:
        return self.crossing.entry.operation

    @property
    def reduces(self) -> bool:
        return bool(self.crossing.entry.reduces)


def launches_of(crossings: Sequence[Crossing], rank: int) -> list[Launch]:
    """All parts that ``rank`` had, in the order in which it asked."""
    return sorted(_parts(crossings, rank), key=lambda launch: launch.at)


def _parts(crossings: Sequence[Crossing], rank: int) -> Iterator[Launch]:
    for crossing in crossings:
        entry = crossing.entry
        for who, at, given in zip(entry.ranks, entry.came, crossing.given, strict=True):
            if who == rank:
                yield Launch(crossing, at, given)


def told_alone(launch: Launch, count: int) -> list[int] | None:
    """The ``count`` numbers that a rank let cross in a group of its own, as scenarios do to say where it is; None for all else."""
    entry = launch.crossing.entry
    if (entry.operation, entry.dtype, entry.bytes, len(entry.ranks)) != ("reduce", "int64", 8 * count, 1):
        return None
    return torch.frombuffer(bytearray(launch.given), dtype=torch.int64).tolist()


def by_call(crossings: Sequence[Crossing]) -> list[list[Crossing]]:
    """What crossed in each call, where the scenario puts a barrier between two."""
    calls: list[list[Crossing]] = [[]]
    for crossing in crossings:
        if crossing.entry.operation == "barrier":
            calls.append([])
        else:
            calls[-1].append(crossing)
    return calls


def _asked_too_early(crossed: Crossed) -> bool:
    """Whether a rank asked for the inputs of a call before the barrier that it begins with."""
    asks = Counter[int]()
    for rank, by_then in crossed.asked:
        if len(by_call(crossed.crossings[:by_then])) <= asks[rank]:
            return True
        asks[rank] += 1
    return False


def stopped(evidence: dict) -> str | None:
    """What ended the ranks before their end, or None."""
    if evidence["crossed"].problem is not None:
        return _sentence(evidence["crossed"].problem.text)
    if evidence["problem"] is not None:
        return _sentence(str(evidence["problem"]["text"]))
    if evidence["crossed"].stored:
        return "A rank asked the store of the process group: what crosses between ranks crosses by collectives and messages."
    if _asked_too_early(evidence["crossed"]):
        return "A rank asked for the hidden test's inputs of a call before that call had begun."
    return "A rank did not return." if None in evidence["results"] else None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
