"""Arrays as a kernel sees them: every access is located, checked, remembered and counted."""

import numpy as np

from gpulab.kernels.simt import requests
from gpulab.kernels.simt.lanes import Mask, compact, spread
from gpulab.kernels.simt.races import WHO, Shadow
from gpulab.kernels.simt.values import poison


class Array:
    """Elements that a kernel indexes. ``space``: ``global``, ``shared`` or ``local``.

    ``flat``: all the memory, one element after another. ``strides``: in elements. ``copy_size``:
    elements of one block's (shared) or one lane's (local) copy; 0 for global memory.
    ``base_bytes``: where element 0 lies in its allocation, which begins at a multiple of 256.
    """

    space = "global"

    def __init__(self, name, flat, shape, strides, base_bytes=0, shadow=None) -> None:
        self.name, self.flat, self.shadow = name, flat, shadow
        self.dtype = flat.dtype
        self.shape = tuple(np.int64(n) for n in shape)
        self.size = np.prod(self.shape, dtype=np.int64)
        self.strides = tuple(strides)
        self.base_bytes = base_bytes
        self.copy_size = 0

    @property
    def ndim(self) -> int:
        return len(self.shape)

    # ---- what a kernel does

    def load(self, group, mask: Mask, index: tuple, place: int):
        """The elements at ``index`` for the lanes of ``mask``; poison where there are none."""
        at, inside = self._locate(group, mask, index, place)
        values = self.flat[at]
        if self.shadow is not None and inside.active:
            values = self._checked(group, inside, at, values, place)
        self._count(group, inside, at, place, store=False)
        out = spread(values, inside)
        if inside is not mask:
            out[mask.lanes & ~inside.lanes] = poison(self.dtype)
        return out

    def store(self, group, mask: Mask, index: tuple, value, place: int) -> None:
        """Write ``value``; lanes outside the array write nothing."""
        at, inside = self._locate(group, mask, index, place)
        if not inside.active:
            return
        mine = compact(group.stamp, inside, group.size)
        if self.shadow is not None:
            self._report(group, inside, at, self.shadow.write(at, mine, group.floor_of(inside), place), place)
        new = _cast(compact(value, inside, group.size), self.dtype)
        if group.launch.watched:
            group.launch.progress += bool((self.flat[at] != new).any())
        self.flat[at] = new
        self._count(group, inside, at, place, store=True)

    def atomic(self, group, mask: Mask, index: tuple, operate, place: int):
        """``operate(flat, at, positions)`` on the elements; returns what was there before, by lane."""
        at, inside = self._locate(group, mask, index, place)
        if not inside.active:
            return np.zeros(group.size, dtype=self.dtype)
        mine = compact(group.stamp, inside, group.size)
        if self.shadow is not None:
            self._check_written(group, inside, at, place)
            clash = self.shadow.atomic(at, mine, group.floor_of(inside), place, group.launch.result_used)
            self._report(group, inside, at, clash, place)
        before = operate(self.flat, at, inside.positions())
        if group.launch.watched:
            group.launch.progress += bool((self.flat[at] != before).any())
        self._count_atomic(group, inside, at, place)
        return spread(before, inside)

    # ---- where

    def _locate(self, group, mask: Mask, index: tuple, place: int) -> tuple[np.ndarray, Mask]:
        wanted = [compact(i, mask, group.size) for i in index]
        outside = None
        for axis, (i, n) in enumerate(zip(wanted, self.shape)):
            if not i.size:
                break
            low, high = i.min(), i.max()
            if low >= 0 and high < n:
                continue
            bad = (i < -n) | (i >= n)
            outside = bad if outside is None else outside | bad
            if low < 0:
                wanted[axis] = self._from_the_end(group, i, n, place)
        inside = mask
        if outside is not None and outside.any():
            inside = self._report_outside(group, mask, index, outside, place)
            wanted = [i[~outside] for i in wanted]
        return self._offset(group, inside, wanted), inside

    def _from_the_end(self, group, i, n, place: int):
        if ((i < 0) & (i >= -n)).any():
            line = group.launch.places.lines[place]
            group.launch.findings.warn(
                f"line {line.number}: a negative index of {self.name} counts from the end in Numba; "
                "in CUDA C++ it reads memory before the array"
            )
        return np.where(i < 0, i + n, i)

    def _report_outside(self, group, mask: Mask, index, outside, place: int) -> Mask:
        lane = int(np.argmax(outside))
        asked = tuple(int(compact(i, mask, group.size)[lane]) for i in index)
        positions = mask.positions()
        thread = group.batch.shape.thread(int(group.who[positions[lane]]))
        group.launch.fault("out of bounds", self.name, asked, thread, place, int(outside.sum()), self.shape)
        lanes = mask.lanes.copy()
        lanes[positions[outside]] = False
        return Mask(lanes)

    def _offset(self, group, mask: Mask, wanted: list) -> np.ndarray:
        at = np.zeros(mask.active, dtype=np.int64) if not wanted else wanted[-1] * self.strides[-1]
        for i, stride in zip(wanted[:-1], self.strides[:-1]):
            at = at + i * stride
        if self.copy_size:
            at = at + self._copies(group, mask) * self.copy_size
        return at

    def _copies(self, group, mask: Mask):
        return compact(group.slots, mask, group.size)

    def element(self, offset: int) -> tuple[int, ...]:
        """The index of the element at ``offset`` in ``flat``."""
        rest = int(offset) % self.copy_size if self.copy_size else int(offset)
        index = [0] * self.ndim
        for axis in sorted(range(self.ndim), key=lambda axis: -self.strides[axis]):
            if self.strides[axis]:
                index[axis], rest = divmod(rest, self.strides[axis])
        return tuple(index)

    # ---- what is remembered

    def _checked(self, group, mask: Mask, at, values, place: int):
        mine = compact(group.stamp, mask, group.size)
        self._check_written(group, mask, at, place)
        clash, _ = self.shadow.read(at, mine, group.floor_of(mask), place)
        self._report(group, mask, at, clash, place)
        return values

    def _check_written(self, group, mask: Mask, at, place: int) -> None:
        """Global memory may have been written before the launch."""

    def _report_unwritten(self, group, mask: Mask, at, never, place: int) -> None:
        if never.any():
            lane = int(np.argmax(never))
            thread = group.batch.shape.thread(int(group.who[mask.positions()[lane]]))
            index = self.element(at[lane])
            group.launch.fault("uninitialised read", self.name, index, thread, place, int(never.sum()), self.shape)

    def _report(self, group, mask: Mask, at, clash, place: int) -> None:
        if clash is None:
            return
        shape = group.batch.shape
        second = int(group.who[mask.positions()[clash.lane]])
        group.launch.findings.race(
            self.space,
            clash.kind,
            self.name,
            self.element(at[clash.lane]),
            shape.thread(clash.first_thread),
            clash.first_place,
            shape.thread(second),
            place,
        )

    # ---- what is counted

    def _count(self, group, mask: Mask, at, place: int, store: bool) -> None:
        trace = group.launch.trace
        if trace is None or not mask.active:
            return
        counter = trace.at(place)
        nbytes = mask.active * self.dtype.itemsize
        if store:
            counter.stores += mask.active
            counter.written_bytes += nbytes
        else:
            counter.loads += mask.active
            counter.read_bytes += nbytes
        count = self._count_request(group, mask, at, counter)
        if store:
            counter.written_sectors += count
        else:
            counter.read_sectors += count
        self._show(group, mask, at, place, store)

    def _count_request(self, group, mask: Mask, at, counter) -> int:
        """One request of each warp. Returns the sectors that they touch."""
        addresses = at * self.dtype.itemsize + self.base_bytes
        count, misaligned = requests.sectors(addresses, compact(group.lane_warps, mask, group.size))
        counter.requests += mask.warps
        counter.misaligned_requests += misaligned
        return count

    def _count_atomic(self, group, mask: Mask, at, place: int) -> None:
        """One request, whose elements are read and written."""
        trace = group.launch.trace
        if trace is None or not mask.active:
            return
        counter = trace.at(place)
        self._count_turns(group, mask, at, counter)
        nbytes = mask.active * self.dtype.itemsize
        counter.loads += mask.active
        counter.stores += mask.active
        counter.read_bytes += nbytes
        counter.written_bytes += nbytes
        count = self._count_request(group, mask, at, counter)
        counter.read_sectors += count
        counter.written_sectors += count
        self._show(group, mask, at, place, store=True)

    def _count_turns(self, group, mask: Mask, at, counter) -> None:
        counter.atomics += mask.active
        counter.atomic_conflicts += requests.atomic_conflicts(at, compact(group.lane_warps, mask, group.size))

    def _show(self, group, mask: Mask, at, place: int, store: bool) -> None:
        if group.launch.steps is not None:
            group.launch.steps.access(group, self, mask, at, place, store)


class SharedArray(Array):
    """One copy a block. What nobody wrote in this launch reads as poison, and is a fault.

    A read that races with a write of another warp sees what was there at the last barrier: a GPU
    may show either, and lockstep must not hide the barrier that is missing.
    """

    space = "shared"

    def __init__(self, name, dtype, shape, copies, threads, releases=None) -> None:
        size = int(np.prod(shape, dtype=np.int64))
        flat = np.full(max(1, size * copies), poison(dtype), dtype=dtype)
        shadow = Shadow(len(flat), shared=True, threads=threads, reads=True, atomics=True, releases=releases)
        super().__init__(name, flat, shape, row_major(shape), shadow=shadow)
        self.copy_size = size
        self.before = flat.copy()
        self.changed = False

    def store(self, group, mask, index, value, place) -> None:
        super().store(group, mask, index, value, place)
        self.changed = True

    def at_barrier(self) -> None:
        """All that was written is now there for the whole block."""
        if self.changed:
            np.copyto(self.before, self.flat)
            self.changed = False

    def _checked(self, group, mask: Mask, at, values, place: int):
        mine = compact(group.stamp, mask, group.size)
        self._check_written(group, mask, at, place)
        clash, late = self.shadow.read(at, mine, group.floor_of(mask), place)
        self._report(group, mask, at, clash, place)
        if late is None:
            return values
        # Lanes of one warp have run in step: they see each other's writes.
        other_warp = ((self.shadow.writes.stamp[at] ^ mine) & WHO) >> 5 != 0
        return np.where(late & other_warp, self.before[at], values)

    def _check_written(self, group, mask: Mask, at, place: int) -> None:
        self._report_unwritten(group, mask, at, self.shadow.unwritten(at), place)

    def _count(self, group, mask: Mask, at, place: int, store: bool) -> None:
        trace = group.launch.trace
        if trace is None or not mask.active:
            return
        self._count_passes(mask, at, trace.at(place), atomic=False)
        self._show(group, mask, at, place, store)

    def _count_passes(self, mask: Mask, at, counter, atomic: bool) -> None:
        counter.shared_requests += mask.warps
        item = self.dtype.itemsize
        addresses = (at % self.copy_size) * item + self.base_bytes
        counter.bank_conflicts += requests.bank_conflicts(addresses, item, mask.positions(), atomic)

    def _count_atomic(self, group, mask: Mask, at, place: int) -> None:
        trace = group.launch.trace
        if trace is None or not mask.active:
            return
        self._count_turns(group, mask, at, trace.at(place))
        self._count_passes(mask, at, trace.at(place), atomic=True)
        self._show(group, mask, at, place, store=True)


class LocalArray(Array):
    """One copy a thread; no other thread can reach it. Reading what was not written is a fault."""

    space = "local"

    def __init__(self, name, dtype, shape, lanes) -> None:
        size = int(np.prod(shape, dtype=np.int64))
        flat = np.full(max(1, size * lanes), poison(dtype), dtype=dtype)
        super().__init__(name, flat, shape, row_major(shape))
        self.copy_size = size
        self._written = np.zeros(len(flat), dtype=bool)

    def _copies(self, group, mask: Mask):
        return compact(group.positions, mask, group.size)

    def load(self, group, mask, index, place):
        at, inside = self._locate(group, mask, index, place)
        self._report_unwritten(group, inside, at, ~self._written[at], place)
        out = spread(self.flat[at], inside)
        if inside is not mask:
            out[mask.lanes & ~inside.lanes] = poison(self.dtype)
        return out

    def store(self, group, mask, index, value, place) -> None:
        at, inside = self._locate(group, mask, index, place)
        self.flat[at] = _cast(compact(value, inside, group.size), self.dtype)
        self._written[at] = True

    def atomic(self, group, mask, index, operate, place):
        raise TypeError(f"{self.name} is local to a thread: an atomic operation needs shared or global memory")


def row_major(shape) -> tuple[int, ...]:
    """Strides in elements of a C-ordered array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= int(n)
    return tuple(reversed(strides))


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return values if values.dtype == dtype else values.astype(dtype)
