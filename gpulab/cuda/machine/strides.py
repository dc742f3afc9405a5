"""Which bytes a strided tensor touches, and whether two such sets have one in common.

Two columns of a matrix span nearly the same bytes and share none. All numbers are bytes.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_MOST_STEPS = 10_000
"""After so many comparisons two sets are taken to meet: it errs towards reporting."""


class Cells(NamedTuple):
    """Runs of ``run`` bytes. ``dims``: (count, stride), the outermost first; the first run begins at 0."""

    dims: tuple[tuple[int, int], ...]
    run: int

    @property
    def span(self) -> int:
        """From the first byte to the end of the last."""
        return self.run + sum((count - 1) * stride for count, stride in self.dims)

    @property
    def inner(self) -> "Cells":
        """One step of the outermost dimension."""
        return Cells(self.dims[1:], self.run)


def cells_of(shape: Iterable[int], strides: Iterable[int], itemsize: int) -> Cells | None:
    """The bytes of a tensor with these strides, which count elements. None: all from its first byte to its last."""
    dims, run = [], itemsize
    for stride, count in sorted((stride * itemsize, count) for count, stride in zip(shape, strides)):
        if count == 1 or stride == 0:
            continue
        if not dims and stride <= run:
            run += (count - 1) * stride
        elif dims and stride == dims[-1][0] * dims[-1][1]:
            dims[-1] = dims[-1][0] * count, dims[-1][1]
        else:
            dims.append((count, stride))
    return Cells(tuple(reversed(dims)), run) if dims else None


def meet(one: Cells, other: Cells, distance: int) -> bool:
    """Whether a byte is in both. ``distance``: from the first byte of ``one`` to that of ``other``."""
    step = math.gcd(*(stride for cells in (one, other) for _, stride in cells.dims))
    if step and one.run <= distance % step <= step - other.run:
        return False  # in every step they lie side by side
    return _meet(one, other, distance, iter(range(_MOST_STEPS)))


def _meet(one: Cells, other: Cells, distance: int, steps: Iterator[int]) -> bool:
    if distance >= one.span or -distance >= other.span:
        return False
    if not one.dims and not other.dims or next(steps, None) is None:
        return True
    outer, others = (cells.dims[0] if cells.dims else (1, 0) for cells in (one, other))
    if outer[1] == others[1]:
        return _meet_in_step(one, other, distance, steps)
    if outer[1] < others[1]:
        return _meet(other, one, -distance, steps)
    count, stride = outer
    first = max(0, -(-(distance - one.inner.span + 1) // stride))
    last = min(count - 1, (distance + other.span - 1) // stride)
    return any(_meet(one.inner, other, distance - i * stride, steps) for i in range(first, last + 1))


def _meet_in_step(one: Cells, other: Cells, distance: int, steps: Iterator[int]) -> bool:
    """Both have the same outermost stride: what counts is by how many steps one is ahead."""
    (count, stride), (others, _) = one.dims[0], other.dims[0]
    first = max(1 - others, -(-(distance - one.inner.span + 1) // stride))
    last = min(count - 1, (distance + other.inner.span - 1) // stride)
    return any(_meet(one.inner, other.inner, distance - k * stride, steps) for k in range(first, last + 1))
