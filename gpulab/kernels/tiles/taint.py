"""What follows a value through a kernel: lanes that nothing was loaded into, and atomics it came from.

A handle's ``attr`` holds both. UNDEFINED: int32 of the data's shape, 0 where the value is defined,
else the number of the load that a mask switched off there. SEEN: the clock of the atomics whose
result the value was computed from (:mod:`gpulab.kernels.tiles.order`).
"""

import functools
from collections.abc import Callable

import numpy as np
import triton.language as tl

from gpulab.compat.triton_interpreter import TensorHandle
from gpulab.kernels.tiles.order import both

UNDEFINED, SEEN = "gpulab.undefined", "gpulab.seen"
# These meet memory, a program's arguments or its descriptors, and look at the marks themselves.
_NOT_CARRIED = (
    "load",
    "store",
    "atomic",
    "assert",
    "print",
    "assume",
    "barrier",
    "make",
    "advance",
    "descriptor",
    "get",
)
_MOVES = {
    f"create_{name}"
    for name in ("reshape", "trans", "expand_dims", "broadcast", "splat", "unsplat", "cat", "join", "split")
}


def undefined(handle) -> np.ndarray | None:
    return handle.attr.get(UNDEFINED) if isinstance(handle, TensorHandle) else None


def seen(handle) -> np.ndarray | None:
    return handle.attr.get(SEEN) if isinstance(handle, TensorHandle) else None


def marked(handle: TensorHandle, marks: np.ndarray | None, clock: np.ndarray | None = None) -> TensorHandle:
    """``handle`` with what is known of its value."""
    if marks is not None and marks.any():
        handle.attr[UNDEFINED] = np.broadcast_to(marks.astype(np.int32), handle.data.shape)
    if clock is not None:
        handle.attr[SEEN] = clock
    return handle


def is_carried(name: str) -> bool:
    """Whether the builder's method of that name computes values from values."""
    if name == "cast_impl":
        return True
    return name.startswith("create_") and not any(part in name.split("_") for part in _NOT_CARRIED)


def carrying(name: str, method: Callable) -> Callable:
    """A method of the builder that marks its results as its arguments were marked."""

    @functools.wraps(method)
    def carried(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if any(_is_marked(arg) for arg in _flat(args)):
            _carry(name, functools.partial(method, self), args, result)
        return result

    return carried


def _flat(args: tuple) -> list:
    return [part for arg in args for part in (arg if isinstance(arg, list) else (arg,))]


def _is_marked(arg) -> bool:
    return isinstance(arg, TensorHandle) and bool(arg.attr) and (UNDEFINED in arg.attr or SEEN in arg.attr)


def _carry(name: str, method: Callable, args: tuple, result) -> None:
    results = result if isinstance(result, tuple) else (result,)
    clock = functools.reduce(both, (seen(arg) for arg in _flat(args)), None)
    known = any(undefined(arg) is not None for arg in _flat(args))
    marks = _marks(name, method, args, result) if known else None
    each = marks if isinstance(marks, tuple) else (marks,) * len(results)
    for handle, mark in zip(results, each):
        if isinstance(handle, TensorHandle):
            marked(handle, mark, clock)


def _marks(name: str, method: Callable, args: tuple, result):
    if name in _MOVES:
        return _moved(method, args)
    if name in _RULES:
        return _RULES[name](*args)
    shape = result.data.shape
    found = [undefined(arg) for arg in _flat(args) if undefined(arg) is not None]
    try:
        return functools.reduce(np.maximum, found, np.zeros(shape, np.int32))
    except ValueError:
        return np.full(shape, max(int(marks.max()) for marks in found), np.int32)


def _moved(method: Callable, args: tuple):
    """Marks move as the values do."""
    moved = method(*(TensorHandle(_of(arg), tl.int32) if isinstance(arg, TensorHandle) else arg for arg in args))
    return tuple(part.data for part in moved) if isinstance(moved, tuple) else moved.data


def _of(handle) -> np.ndarray:
    marks = undefined(handle)
    return np.zeros(np.shape(handle.data), np.int32) if marks is None else marks


def _select(condition, yes, no) -> np.ndarray:
    return np.maximum(np.where(condition.data, _of(yes), _of(no)), _of(condition))


def _settled(settles: Callable) -> Callable:
    """One side's value may settle the result whatever the other is: 0 for and, all ones for or."""

    def rule(left, right, *_) -> np.ndarray:
        a, b = _of(left), _of(right)
        return np.maximum(np.where(settles(right.data) & (b == 0), 0, a), np.where(settles(left.data) & (a == 0), 0, b))

    return rule


def _dot(left, right, total, *_) -> np.ndarray:
    rows, columns = _of(left).max(-1, keepdims=True), _of(right).max(-2, keepdims=True)
    return np.maximum(np.maximum(rows, columns), _of(total))


def _histogram(data, bins, mask) -> np.ndarray:
    marks = _of(data) if mask is None else np.where(mask.data, _of(data), 0)
    return np.full(bins, marks.max(initial=0), np.int32)


def _gather(source, indices, axis) -> np.ndarray:
    return np.maximum(np.take_along_axis(_of(source), indices.data, axis=axis), _of(indices))


_ZERO = _settled(lambda data: data == 0)
_RULES = {
    "create_select": _select,
    "create_and": _ZERO,
    "create_mul": _ZERO,
    "create_or": _settled(lambda data: data if data.dtype == bool else data == np.array(-1).astype(data.dtype)),
    "create_dot": _dot,
    "create_histogram": _histogram,
    "create_gather": _gather,
}


def reduced(sources: tuple, axis: int | None, keep_dims: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Marks and clock of a reduction over ``sources``, the same for each of its results."""
    marks = functools.reduce(np.maximum, (_of(x.handle) for x in sources))
    clock = functools.reduce(both, (seen(x.handle) for x in sources), None)
    return marks.max(axis=axis, keepdims=keep_dims), clock


def scanned(sources: tuple, axis: int, reverse: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Marks and clock of a scan: a lane is as undefined as one of those before it."""
    marks = functools.reduce(np.maximum, (_of(x.handle) for x in sources))
    clock = functools.reduce(both, (seen(x.handle) for x in sources), None)
    flipped = np.flip(marks, axis) if reverse else marks
    grown = np.maximum.accumulate(flipped, axis=axis)
    return np.flip(grown, axis) if reverse else grown, clock
