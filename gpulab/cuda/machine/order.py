"""Happens-before by vector clocks: which accesses to device memory the program has ordered.

Every queue (a CUDA stream, or the host) numbers its work: its *epoch*. A queue's vector clock holds, for each
other queue, the newest epoch that is certain to have ended before this queue's next work starts. Two accesses to
the same bytes, one of them a write, race unless the vector clock of the later one covers the epoch of the earlier.
"""

import functools
from typing import NamedTuple

from gpulab.cuda.machine.strides import Cells, meet

HOST = -1
_LONG = 64
_SLICES = 512
"""So many accesses to parts of one storage are told apart: a table has a row for each of its users."""
WHOLE = 1 << 62


class Extent(NamedTuple):
    """Bytes of a storage: of ``[low, high)`` those of ``cells``, which begin at ``low``; None: all."""

    low: int
    high: int
    cells: Cells | None = None

    def behind(self, shift: int) -> "Extent":
        """The same ``shift`` bytes further on."""
        return self._replace(low=self.low + shift, high=self.high + shift)


ALL = Extent(0, WHOLE)


class Access(NamedTuple):
    """One kernel's or copy's use of bytes ``[low, high)`` of a storage.

    ``cells``: which of them, from ``low`` on; None: all. ``former``: the storage is gone, its memory has been handed
    on; the bytes are addresses then.
    """

    queue: int
    epoch: int
    op: str
    line: object
    low: int
    high: int
    writes: bool
    cells: Cells | None = None
    former: bool = False


access_of = functools.partial(tuple.__new__, Access)
"""An Access of all its fields in order: without the Python of a named tuple, which takes longer than all else about it."""


def merge(into: dict[int, int], other: dict[int, int]) -> None:
    """Join the vector clock ``other`` into ``into``: the elementwise maximum."""
    for queue, epoch in other.items():
        if into.get(queue, 0) < epoch:
            into[queue] = epoch


class AccessHistory:
    """The accesses to one storage that a later access may still race with.

    ``base``: the address of the storage's first byte. Accesses of storages that lay there before
    are kept with their addresses: memory that one queue frees may be handed to another.
    """

    __slots__ = ("writes", "reads", "base")

    def __init__(self, base: int = 0) -> None:
        self.writes: list[Access] = []
        self.reads: list[Access] = []
        self.base = base

    def read(self, access: Access, vector_clock: dict[int, int]) -> Access | None:
        """Record a read; returns the write it is not ordered after, if any."""
        clash = self._clash(self.writes, access, vector_clock)
        self.reads = [*self._without_covered(self.reads, access), access]
        return clash

    def write(self, access: Access, vector_clock: dict[int, int]) -> Access | None:
        """Record a write; returns an access that it is not ordered after, if any."""
        clash = self._clash(self.writes, access, vector_clock) or self._clash(self.reads, access, vector_clock)
        self.writes = [*self._without_covered(self.writes, access, any_queue=True), access]
        self.reads = self._without_covered(self.reads, access, any_queue=True)
        return clash

    def leave(self, size: int) -> None:
        """The storage of ``size`` bytes is freed: what used it is still there for the next tenant.

        The tenant may be another queue's: a tensor is made in one stream and first written in
        another. For work of the same queue the order is given.
        """
        self.writes = [as_former(a, self.base, size) for a in self.writes]
        self.reads = [as_former(a, self.base, size) for a in self.reads]

    def all(self) -> list[Access]:
        return self.reads + self.writes

    def join(self, other: "AccessHistory") -> None:
        """The free memory behind is one with this."""
        self.writes = short(self.writes + other.writes)
        self.reads = short(self.reads + other.reads)

    def part(self, base: int, size: int) -> "AccessHistory":
        """Of free memory: the history of ``size`` bytes from address ``base`` on."""
        twin = AccessHistory(base)
        end = base + size
        twin.writes = [clipped(a, base, end) for a in self.writes if a.low < end and base < a.high]
        twin.reads = [clipped(a, base, end) for a in self.reads if a.low < end and base < a.high]
        return twin

    def _span(self, was: Access) -> tuple[int, int]:
        return (was.low - self.base, was.high - self.base) if was.former else (was.low, was.high)

    def _clash(self, earlier: list[Access], now: Access, vector_clock: dict[int, int]) -> Access | None:
        for was in earlier:
            if was.queue != now.queue and vector_clock.get(was.queue, 0) < was.epoch:
                low, high = self._span(was)
                if low < now.high and now.low < high and _share_a_byte(was, now, now.low - low):
                    return was
        return None

    def _without_covered(self, accesses: list[Access], now: Access, any_queue: bool = False) -> list[Access]:
        left = [a for a in accesses if not ((any_queue or a.queue == now.queue) and self._covers(now, a))]
        return left if len(left) < _LONG else short(left)

    def _covers(self, now: Access, was: Access) -> bool:
        low, high = self._span(was)
        if now.cells is not None:
            return now.cells == was.cells and now.low == low
        return now.low <= low and high <= now.high


def as_former(access: Access, base: int, size: int) -> Access:
    """What it is once its storage, of ``size`` bytes from address ``base`` on, is gone."""
    if access.former:
        return access
    queue, epoch, op, line, low, high, writes, cells, _ = access
    return Access(queue, epoch, op, line, base + low, base + min(high, size), writes, cells, True)


def _share_a_byte(one: Access, other: Access, distance: int) -> bool:
    """Of two whose spans meet: ``distance`` bytes further on ``other`` begins."""
    if one.cells is None and other.cells is None:
        return True
    return meet(*(a.cells or Cells((), a.high - a.low) for a in (one, other)), distance)


def clipped(access: Access, low: int, high: int) -> Access:
    """Its part in ``[low, high)``."""
    if low <= access.low and access.high <= high:
        return access
    cells = access.cells if low <= access.low else None
    return access._replace(low=max(access.low, low), high=min(access.high, high), cells=cells)


def short(accesses: list[Access]) -> list[Access]:
    """At most so many that a long run of a program stays fast."""
    if len(accesses) < _LONG:
        return accesses
    former, own = [a for a in accesses if a.former], [a for a in accesses if not a.former]
    return _newest(former, _LONG) + _newest(own, _SLICES)


def _newest(accesses: list[Access], at_most: int) -> list[Access]:
    # Errs towards reporting: the newest epoch stands for all bytes of its queue.
    if len(accesses) < at_most:
        return accesses
    newest: dict[tuple[int, bool], Access] = {}
    for was in accesses:
        key = was.queue, was.former
        held = newest.get(key, was)
        low, high = min(held.low, was.low), max(held.high, was.high)
        newest[key] = max(held, was, key=lambda a: a.epoch)._replace(low=low, high=high, cells=None)
    return list(newest.values())
