"""Happens-before: which accesses to device memory the program has put in order.

Every queue (a CUDA stream, or the host) numbers its work: its *epoch*. ``seen`` holds, for
each queue, the newest epoch of another that is certain to have ended before its next work
starts. An access that the accessing queue has not seen is ordered by nothing.
"""

from typing import NamedTuple

HOST = -1
_LONG = 64
WHOLE = 1 << 62


class Access(NamedTuple):
    """One kernel's or copy's use of bytes ``[low, high)`` of a storage."""

    queue: int
    epoch: int
    op: str
    line: object
    low: int
    high: int
    writes: bool
    former: bool = False


def merge(into: dict[int, int], other: dict[int, int]) -> None:
    """``into`` has now seen all that ``other`` had."""
    for queue, epoch in other.items():
        if into.get(queue, 0) < epoch:
            into[queue] = epoch


class Trail:
    """The accesses to one storage that a later access may still clash with."""

    __slots__ = ("writes", "reads")

    def __init__(self) -> None:
        self.writes: list[Access] = []
        self.reads: list[Access] = []

    def read(self, access: Access, seen: dict[int, int]) -> Access | None:
        """Record a read; returns the write it is not ordered after, if any."""
        clash = _clash(self.writes, access, seen)
        self.reads = [*_without_covered(self.reads, access), access]
        return clash

    def write(self, access: Access, seen: dict[int, int]) -> Access | None:
        """Record a write; returns an access that it is not ordered after, if any."""
        clash = _clash(self.writes, access, seen) or _clash(self.reads, access, seen)
        self.writes = [*_without_covered(self.writes, access, any_queue=True), access]
        self.reads = _without_covered(self.reads, access, any_queue=True)
        return clash

    def leave(self, queue: int) -> None:
        """The storage is freed into ``queue``'s pool: what that queue did is in order there."""
        self.writes = [a._replace(former=True) for a in self.writes if a.queue != queue]
        self.reads = [a._replace(former=True) for a in self.reads if a.queue != queue]

    def join(self, other: "Trail") -> None:
        self.writes = self.writes + other.writes
        self.reads = self.reads + other.reads

    def copy(self) -> "Trail":
        twin = Trail()
        twin.writes, twin.reads = list(self.writes), list(self.reads)
        return twin


def _clash(earlier: list[Access], now: Access, seen: dict[int, int]) -> Access | None:
    for was in earlier:
        if (
            was.queue != now.queue
            and seen.get(was.queue, 0) < was.epoch
            and (was.former or (was.low < now.high and now.low < was.high))
        ):
            return was
    return None


def _without_covered(accesses: list[Access], now: Access, any_queue: bool = False) -> list[Access]:
    kept = [
        was
        for was in accesses
        if not (now.low <= was.low and was.high <= now.high and (any_queue or was.queue == now.queue))
    ]
    return kept if len(kept) < _LONG else _coalesced(kept)


def _coalesced(accesses: list[Access]) -> list[Access]:
    # Errs towards reporting: the newest epoch stands for all bytes of its queue.
    newest: dict[int, Access] = {}
    for was in accesses:
        held = newest.get(was.queue, was)
        low, high = min(held.low, was.low), max(held.high, was.high)
        newest[was.queue] = max(held, was, key=lambda a: a.epoch)._replace(low=low, high=high)
    return list(newest.values())
