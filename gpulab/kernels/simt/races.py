"""Who used which element last: finds two threads that no barrier or atomic puts in order.

Every access leaves a stamp: ``epoch`` (barriers that the block has passed), ``clock`` (warp
barriers since the last of them) and the thread. Two accesses by different threads are ordered
when both are of one block and its epoch has moved on between them, or when both are of one warp
and its clock has. Two readers are kept for an element, of different blocks where there are such, else of
different warps: a later write is unordered with one of them if with any.
"""

import numpy as np

WHO_BITS, CLOCK_BITS, EPOCH_BITS = 27, 16, 20
WHO = (1 << WHO_BITS) - 1
EPOCH_SHIFT = WHO_BITS + CLOCK_BITS
NOBODY = -1
MAX_CLOCK, MAX_EPOCH = (1 << CLOCK_BITS) - 1, (1 << EPOCH_BITS) - 1


class Marks:
    """For each element the last stamp of one kind of access, and its place in the source."""

    __slots__ = ("stamp", "place", "time")

    def __init__(self, elements: int, timed: bool = False) -> None:
        self.stamp = np.full(elements, NOBODY, dtype=np.int64)
        self.place = np.zeros(elements, dtype=np.int16)
        self.time = np.zeros(elements, dtype=np.int64) if timed else None

    def set(self, at, stamp, place: int, now: int = 0) -> None:
        self.stamp[at] = stamp
        self.place[at] = place
        if self.time is not None:
            self.time[at] = now


class Clash:
    """Two unordered accesses: of an element, by ``first`` (a stamp) and by the lane ``second``."""

    __slots__ = ("kind", "lane", "first_thread", "first_place")

    def __init__(self, kind: str, lane: int, first_thread: int, first_place: int) -> None:
        self.kind, self.lane = kind, lane
        self.first_thread, self.first_place = first_thread, first_place


class Shadow:
    """The history of one array's elements. ``shared``: all accesses are of one block each.

    ``releases``: what fences and atomics order besides, in a kernel that has fences.
    """

    def __init__(self, elements: int, shared: bool, threads: int, reads: bool, atomics: bool, releases=None) -> None:
        self.shared, self._threads, self._releases = shared, threads, releases
        timed = releases is not None
        self.writes = Marks(elements, timed)
        self.reads = (Marks(elements, timed), Marks(elements, timed)) if reads else ()
        self.atomics = (Marks(elements, timed), Marks(elements, timed)) if atomics else ()

    def unwritten(self, at: np.ndarray) -> np.ndarray:
        """For each access whether nobody has ever written its element."""
        never = self.writes.stamp[at] == NOBODY
        for marks in self.atomics[:1]:
            never &= marks.stamp[at] == NOBODY
        return never

    def read(self, at, mine, floor, place: int) -> tuple[Clash | None, np.ndarray | None]:
        """Note reads of the elements ``at``. Returns a clash, and which lanes clash with a write."""
        self._tick()
        late = self._unordered(self.writes, at, mine, floor)
        clash = None if late is None else self._clash("read after write", self.writes, at, late)
        for marks in self.atomics:
            clash = clash or self._look(marks, "read after write", at, mine, floor)
        if self.reads:
            self._keep_two(self.reads, at, mine, floor, place)
        return clash, late

    def write(self, at, mine, floor, place: int) -> Clash | None:
        """Note writes of the elements ``at``, all by different lanes in one step."""
        self._tick()
        clash = self._look(self.writes, "write after write", at, mine, floor)
        for marks in self.reads:
            clash = clash or self._look(marks, "write after read", at, mine, floor)
        for marks in self.atomics:
            clash = clash or self._look(marks, "write after write", at, mine, floor)
        self.writes.set(at, mine, place, self._now())
        lost = self.writes.stamp[at] != mine
        if clash is None and lost.any():
            clash = self._clash("write after write", self.writes, at, lost)
        return clash

    def atomic(self, at, mine, floor, place: int, acquires: bool = False) -> Clash | None:
        """Note atomic operations: unordered with plain accesses, never with each other.

        ``acquires``: whether the threads look at what they give back.
        """
        self._tick()
        clash = self._look(self.writes, "write after write", at, mine, floor)
        for marks in self.reads:
            clash = clash or self._look(marks, "write after read", at, mine, floor)
        self._keep_two(self.atomics, at, mine, floor, place)
        if self._releases is not None:
            self._releases.atomic(self, at, mine, acquires)
        return clash

    def _tick(self) -> None:
        if self._releases is not None:
            self._releases.now += 1

    def _now(self) -> int:
        return 0 if self._releases is None else self._releases.now

    def _look(self, marks: Marks, kind: str, at, mine, floor) -> Clash | None:
        late = self._unordered(marks, at, mine, floor)
        return None if late is None else self._clash(kind, marks, at, late)

    def _clash(self, kind: str, marks: Marks, at, lanes) -> Clash:
        lane = int(np.argmax(lanes))
        element = at[lane]
        return Clash(kind, lane, int(marks.stamp[element]) & WHO, int(marks.place[element]))

    def _unordered(self, marks: Marks, at, mine, floor) -> np.ndarray | None:
        """For each lane whether the access in ``marks`` is unordered with its own; None if none is."""
        theirs = marks.stamp[at]
        found = theirs >= floor
        if not self.shared:
            found |= (theirs != NOBODY) & self._other_block(theirs, mine)
        if not found.any():
            return None
        apart = (theirs ^ mine) & WHO
        found &= apart != 0
        # One warp, whose clock has moved on since.
        found &= (apart >> 5 != 0) | (theirs >> WHO_BITS >= mine >> WHO_BITS)
        if self._releases is not None:
            self._leave_out_released(found, marks, at, theirs, mine)
        return found if found.any() else None

    def _leave_out_released(self, found, marks: Marks, at, theirs, mine) -> None:
        atomic = any(marks is one for one in self.atomics)
        for lane in np.flatnonzero(found):
            element = int(at[lane])
            where = (id(self), element) if atomic else None
            found[lane] = not self._releases.knows(
                int(mine[lane]) & WHO, int(theirs[lane]), int(marks.time[element]), where
            )

    def _keep_two(self, pair, at, mine, floor, place: int) -> None:
        one, two = pair
        now = self._now()
        stands = self._unordered(one, at, mine, floor)
        if stands is None:
            one.set(at, mine, place, now)
        else:
            free = ~stands
            one.set(at[free], mine[free], place, now)
        others = np.flatnonzero((one.stamp[at] ^ mine) & WHO)
        if others.size:
            floors = floor if np.ndim(floor) == 0 else floor[others]
            self._keep_second(one, two, at[others], mine[others], floors, place)

    def _keep_second(self, one, two, at, mine, floor, place: int) -> None:
        distance = self._distance(one.stamp[at], mine)
        # Of lanes of one element the furthest is written last, and stays.
        lanes = np.argsort(distance, kind="stable")
        stands = self._unordered(two, at, mine, floor)
        if stands is not None:
            # A second access from further away stays: it cannot be ordered with the first's warp or block.
            stays = stands & (self._distance(one.stamp[at], two.stamp[at]) > distance)
            lanes = lanes[~stays[lanes]]
        two.set(at[lanes], mine[lanes], place, self._now())

    def _distance(self, a, b) -> np.ndarray:
        """0 in one warp, 1 in one block, 2 in two blocks."""
        other_warp = ((a ^ b) & WHO) >> 5 != 0
        return other_warp.astype(np.int8) if self.shared else other_warp + self._other_block(a, b).astype(np.int8)

    def _other_block(self, a, b) -> np.ndarray:
        return (a & WHO) // self._threads != (b & WHO) // self._threads
