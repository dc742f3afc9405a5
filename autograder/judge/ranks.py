"""What judges of exercises with ranks share: launches of a rank, calls, and why ranks stopped."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from autograder.judge.collective_broker import CollectiveRecord, Traffic

_DEFAULT_GROUP = "0"
_ENDS = -1


def is_of_all(collective: CollectiveRecord, ranks: int) -> bool:
    """Whether all ranks of the case took part, in the default process group."""
    return collective.entry.group == _DEFAULT_GROUP and collective.entry.ranks == tuple(range(ranks))


@dataclass(frozen=True)
class Launch:
    """A rank's part in a collective: its input as bytes, and ``at``, the broker's count of that rank's requests by then."""

    collective: CollectiveRecord
    at: int
    given: bytes

    @property
    def operation(self) -> str:
        return self.collective.entry.operation

    @property
    def dtype(self) -> str:
        return self.collective.entry.dtype

    @property
    def reduces(self) -> bool:
        return bool(self.collective.entry.reduces)


def launches_of(collectives: Sequence[CollectiveRecord], rank: int) -> list[Launch]:
    """All launches of ``rank``, in the order of its requests."""
    return sorted(_parts(collectives, rank), key=lambda launch: launch.at)


def _parts(collectives: Sequence[CollectiveRecord], rank: int) -> Iterator[Launch]:
    for collective in collectives:
        entry = collective.entry
        for who, at, given in zip(entry.ranks, entry.came, collective.given, strict=True):
            if who == rank:
                yield Launch(collective, at, given)


def marker_of(launch: Launch, count: int) -> list[int] | None:
    """The ``count`` integers of a scenario's marker: a rank reduces them in a group of its own. None for all else."""
    entry = launch.collective.entry
    if (entry.operation, entry.dtype, entry.bytes, len(entry.ranks)) != ("reduce", "int64", 8 * count, 1):
        return None
    return torch.frombuffer(bytearray(launch.given), dtype=torch.int64).tolist()


@dataclass(frozen=True)
class Told:
    """A marker: its number, what was ``measured`` when it was given, and the rank's count of requests ``at`` that time."""

    number: int
    measured: tuple[int, ...]
    at: int


@dataclass
class Span:
    """What a rank launched between two markers of -1, and what it ``told`` by then, up to that which ends the span."""

    launches: list[Launch] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)

    @cached_property
    def marks(self) -> dict[int, int]:
        """The rank's count of requests when it last gave each number."""
        return {told.number: told.at for told in self.told if told.number != _ENDS}


def spans(launches: Sequence[Launch], measured: int = 0) -> list[Span]:
    """A rank's spans, the last of which no marker ends. See :func:`autograder.runner.ranks.marker`, which has so many measures."""
    found = [Span()]
    for launch in launches:
        marker = marker_of(launch, 1 + measured)
        if marker is None:
            found[-1].launches.append(launch)
            continue
        number, *measures = marker
        found[-1].told.append(Told(number, tuple(measures), launch.at))
        if number == _ENDS:
            found.append(Span())
    return found


def handed_in(given: bytes, dtype: str) -> torch.Tensor:
    """What a rank handed in, flat. ``dtype``: as its entry says. Raises AttributeError where PyTorch has no such dtype."""
    kind = getattr(torch, dtype)
    return torch.frombuffer(bytearray(given), dtype=kind) if given else torch.zeros(0, dtype=kind)


def by_call(collectives: Sequence[CollectiveRecord]) -> list[list[CollectiveRecord]]:
    """The collectives of each call, where the scenario puts a barrier between two."""
    calls: list[list[CollectiveRecord]] = [[]]
    for collective in collectives:
        if collective.entry.operation == "barrier":
            calls.append([])
        else:
            calls[-1].append(collective)
    return calls


def _asked_too_early(traffic: Traffic) -> bool:
    """Whether a rank asked for the inputs of a call before the barrier that it begins with."""
    asks = Counter[int]()
    for rank, by_then in traffic.asked:
        if len(by_call(traffic.collectives[:by_then])) <= asks[rank]:
            return True
        asks[rank] += 1
    return False


def stopped(evidence: dict) -> str | None:
    """The sentence about what stopped the ranks early, or None."""
    if evidence["traffic"].problem is not None:
        return _sentence(evidence["traffic"].problem.text)
    if evidence["problem"] is not None:
        return _sentence(str(evidence["problem"]["text"]))
    if evidence["traffic"].stored:
        return "A rank used the process group's store: ranks may communicate by collectives and by send and recv alone."
    if _asked_too_early(evidence["traffic"]):
        return "A rank asked for the hidden test's inputs of a later call before that call had begun."
    return "A rank did not return." if None in evidence["results"] else None


def _sentence(text: str) -> str:
    """A marker is none of what a rank's own code asked for; and of a freed storage a learner knows, of a signal not."""
    freed = "Something was read whose storage holds nothing: " if "SIGSEGV" in text else ""
    text = _MARKED.sub(".", text)
    return freed + text[:1].upper() + text[1:]


_MARKED = re.compile(": the last that it asked for was reduce SUM of [0-9]+ int64.*", re.DOTALL)
