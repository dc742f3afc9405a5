"""Who used memory before its present storage, while the card has one queue.

The work of one queue is in order, so nobody asks before there is a second queue. Until then a storage that is freed
leaves its accesses here in one step, and no block carries those of its forerunners through splits and merges.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from gpulab.cuda.machine.blocks import Block
from gpulab.cuda.machine.order import WHOLE, Access, AccessHistory, as_former, clipped, short

_MANY = 1024
_NOTHING: list[Access] = []


class FormerAccesses:
    """The accesses of storages that are gone, by address: of each byte the last write, and the last read since."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, int], list[Access]] = {}
        self._kept: list[Access] = []
        self._added = 0

    def leave(self, accesses: AccessHistory, size: int) -> None:
        """A storage in a block of ``size`` bytes is freed: its accesses go from the block to here."""
        place, own = (accesses.base, size), accesses.reads + accesses.writes
        before = self._left.get(place, _NOTHING)
        if not before or not accesses.writes or accesses.writes[0].high < WHOLE:
            own += before
            self._added += 1
        self._left[place] = own
        accesses.reads, accesses.writes = [], []
        if self._added >= _MANY + len(self._kept):
            self._kept, self._added = _not_covered(self._all(), ()), 0
            self._left.clear()

    def hand_to(self, blocks: Iterable[Block]) -> None:
        """Give each block, free or in use, the accesses to its bytes that its own storage has not covered."""
        blocks = sorted(blocks, key=lambda block: block.address)
        since = [as_former(a, block.address, block.size) for block in blocks for a in block.accesses.all()]
        kept = sorted(_not_covered(self._all(), since), key=lambda access: access.low)
        for block, former in _by_block(blocks, kept):
            block.accesses.writes = short([a for a in former if a.writes]) + block.accesses.writes
            block.accesses.reads = short([a for a in former if not a.writes]) + block.accesses.reads

    def _all(self) -> list[Access]:
        return self._kept + [as_former(a, *place) for place, accesses in self._left.items() for a in accesses]


def _not_covered(accesses: list[Access], since: Iterable[Access]) -> list[Access]:
    """Of ``accesses`` the parts that no later write, and of reads no later read, among them and ``since`` covers."""
    written, touched, parts, spread = _Ranges(), _Ranges(), [], set()
    both = [(a, True) for a in accesses] + [(a, False) for a in since]
    for access, is_asked_for in sorted(both, key=lambda one: (one[0].epoch, one[0].writes), reverse=True):
        gaps = (written if access.writes else touched).without(access.low, access.high)
        place = access.low, access.cells, access.writes
        if is_asked_for and place not in spread:
            parts += [clipped(access, low, high) for low, high in gaps]
        if access.cells is not None:
            spread.add(place)
            continue
        touched.add(access.low, access.high)
        if access.writes:
            written.add(access.low, access.high)
    return parts


def _by_block(blocks: list[Block], accesses: list[Access]) -> Iterator[tuple[Block, list[Access]]]:
    """With each block the accesses to its bytes. Both in the order of their addresses."""
    here, at = [], 0
    for block in blocks:
        low, high = block.address, block.address + block.size
        while at < len(accesses) and accesses[at].low < high:
            here.append(accesses[at])
            at += 1
        here = [access for access in here if access.high > low]
        yield block, [clipped(access, low, high) for access in here]


class _Ranges:
    """Bytes as ranges that do not meet."""

    def __init__(self) -> None:
        self._lows: list[int] = []
        self._highs: list[int] = []

    def without(self, low: int, high: int) -> list[tuple[int, int]]:
        """The parts of ``[low, high)`` that are in no range."""
        gaps = []
        for at in range(bisect_right(self._highs, low), bisect_left(self._lows, high)):
            if self._lows[at] > low:
                gaps.append((low, self._lows[at]))
            low = self._highs[at]
        return [*gaps, (low, high)] if low < high else gaps

    def add(self, low: int, high: int) -> None:
        first, end = bisect_left(self._highs, low), bisect_right(self._lows, high)
        if first < end:
            low, high = min(low, self._lows[first]), max(high, self._highs[end - 1])
        self._lows[first:end], self._highs[first:end] = [low], [high]
