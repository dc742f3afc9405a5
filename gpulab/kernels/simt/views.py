"""Rows and slices: parts of an array, which are arrays themselves and share its memory."""

import numpy as np

from gpulab.kernels.simt.arrays import Array
from gpulab.kernels.simt.lanes import Mask
from gpulab.kernels.simt.values import poison, select


class Slice:
    """``start:stop:step`` in brackets; None where nothing stands. Numbers, or one for each lane."""

    __slots__ = ("start", "stop", "step")

    def __init__(self, start, stop, step) -> None:
        self.start, self.stop, self.step = start, stop, step

    def of(self, length) -> tuple:
        """First index, step and count among ``length`` elements, by Python's rules."""
        step = np.int64(1) if self.step is None else self.step.astype(np.int64)
        forward = step > 0
        low, high = np.where(forward, 0, -1), np.where(forward, length, length - 1)
        start = np.where(forward, low, high) if self.start is None else _clamped(self.start, length, low, high)
        stop = np.where(forward, high, low) if self.stop is None else _clamped(self.stop, length, low, high)
        count = np.maximum(0, (stop - start + step - np.sign(step)) // np.where(step == 0, 1, step))
        return tuple(_scalar(part) for part in (start, step, count))


def _clamped(bound, length, low, high):
    bound = bound.astype(np.int64)
    return np.clip(np.where(bound < 0, bound + length, bound), low, high)


def _scalar(part):
    return np.int64(part) if np.ndim(part) == 0 else part


class View(Array):
    """A part of ``root``. ``axes``: for each of root's axes its index, or ``(start, step)`` of what is left of it."""

    def __init__(self, root: Array, axes: tuple, shape: tuple, name: str) -> None:
        self.root, self.axes, self.shape, self.name = root, axes, shape, name
        self.space, self.dtype = root.space, root.dtype
        size = np.int64(1)
        for extent in shape:
            size = size * extent
        self.size = size

    def load(self, group, mask: Mask, index: tuple, place: int):
        inside, found = self._in_root(group, mask, index, place)
        out = self.root.load(group, inside, found, place)
        if inside is not mask:
            out = out.copy()
            out[mask.lanes & ~inside.lanes] = poison(self.dtype)
        return out

    def store(self, group, mask: Mask, index: tuple, value, place: int) -> None:
        inside, found = self._in_root(group, mask, index, place)
        if inside.active:
            self.root.store(group, inside, found, value, place)

    def atomic(self, group, mask: Mask, index: tuple, operate, place: int):
        inside, found = self._in_root(group, mask, index, place)
        return self.root.atomic(group, inside, found, operate, place)

    def _in_root(self, group, mask: Mask, index: tuple, place: int) -> tuple[Mask, tuple]:
        wanted, outside = [], np.zeros(group.size, dtype=bool)
        for i, extent in zip(index, self.shape):
            i = i.astype(np.int64)
            outside |= (i < -extent) | (i >= extent)
            if (mask.lanes & (i < 0)).any():
                i = self._from_the_end(group, i, extent, place)
            wanted.append(i)
        outside &= mask.lanes
        inside = self._told(group, mask, index, outside, place) if outside.any() else mask
        return inside, tuple(self._mapped(wanted))

    def _told(self, group, mask: Mask, index, outside, place: int) -> Mask:
        lane = int(np.argmax(outside))
        asked = tuple(int(_at(i, lane)) for i in index)
        shape = tuple(_at(extent, lane) for extent in self.shape)
        thread = group.batch.shape.thread(int(group.who[lane]))
        group.launch.fault("out of bounds", self.name, asked, thread, place, int(outside.sum()), shape)
        return mask.minus(Mask(outside))

    def _mapped(self, wanted: list):
        rest = iter(wanted)
        for axis in self.axes:
            yield axis[0] + axis[1] * next(rest) if isinstance(axis, tuple) else axis


def part_of(array: Array, index: tuple, name: str) -> View:
    """What ``array[index]`` is when the index has slices, or fewer numbers than the array has axes."""
    index = (*index, *[Slice(None, None, None)] * (array.ndim - len(index)))
    kept, shape = [], []
    for i, extent in zip(index, array.shape):
        if isinstance(i, Slice):
            start, step, count = i.of(extent)
            kept.append((start, step))
            shape.append(count)
        else:
            i = i.astype(np.int64)
            kept.append(np.where(i < 0, i + extent, i) if np.any(i < 0) else i)
    if not isinstance(array, View):
        return View(array, tuple(kept), tuple(shape), name)
    return View(array.root, tuple(_composed(array.axes, kept)), tuple(shape), name)


def _composed(axes: tuple, kept: list):
    rest = iter(kept)
    for axis in axes:
        if not isinstance(axis, tuple):
            yield axis
            continue
        inner = next(rest)
        if isinstance(inner, tuple):
            yield axis[0] + axis[1] * inner[0], axis[1] * inner[1]
        else:
            yield axis[0] + axis[1] * inner


def merged(mask: Mask, new: Array, old: Array) -> View | None:
    """``new`` in the lanes of ``mask``, ``old`` in the others; None when they are no parts of one array alike."""
    if not (isinstance(new, View) and isinstance(old, View)) or new.root is not old.root:
        return None
    if [isinstance(axis, tuple) for axis in new.axes] != [isinstance(axis, tuple) for axis in old.axes]:
        return None

    def chosen(a, b):
        if isinstance(a, tuple):
            return tuple(chosen(*pair) for pair in zip(a, b))
        return a if a is b else select(mask.lanes, a, b)

    return View(new.root, chosen(new.axes, old.axes), chosen(new.shape, old.shape), new.name)


def _at(value, lane: int):
    return value if np.ndim(value) == 0 else value[lane]
