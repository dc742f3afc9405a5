"""The names of ``numba.cuda``: write a kernel once, run it here and on a GPU.

>>> from gpulab.kernels import cuda
>>> @cuda.jit
... def double(x):
...     i = cuda.grid(1)
...     if i < x.size:
...         x[i] *= 2
>>> double[blocks, threads](x)  # doctest: +SKIP
"""

import types

import numpy as np

from gpulab.kernels.simt import atomics as atomic
from gpulab.kernels.simt.intrinsics import Allocation, Grid, Operation, Reading, full
from gpulab.kernels.simt.lanes import WARP
from gpulab.kernels.simt.launcher import jit
from gpulab.kernels.simt.warp import (
    activemask,
    all_sync,
    any_sync,
    ballot_sync,
    eq_sync,
    lanemask_lt,
    match_any_sync,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncwarp,
)

__all__ = [
    "activemask", "all_sync", "any_sync", "atomic", "ballot_sync", "blockDim", "blockIdx", "brev", "clz", "eq_sync",
    "ffs", "fma", "grid", "gridDim", "gridsize", "jit", "laneid", "lanemask_lt", "local", "match_any_sync", "popc",
    "selp", "shared", "shfl_down_sync", "shfl_sync", "shfl_up_sync", "shfl_xor_sync", "synchronize", "syncthreads",
    "syncthreads_and", "syncthreads_count", "syncthreads_or", "syncwarp", "threadIdx", "threadfence",
    "threadfence_block", "threadfence_system", "warpsize",
]  # fmt: skip


def _index(name: str) -> types.SimpleNamespace:
    def axis(letter: str, number: int) -> Reading:
        return Reading(f"{name}.{letter}", lambda group: group.coordinate(name, number))

    return types.SimpleNamespace(x=axis("x", 0), y=axis("y", 1), z=axis("z", 2))


def _extent(name: str, of: str) -> types.SimpleNamespace:
    def axis(letter: str, number: int) -> Reading:
        return Reading(f"{name}.{letter}", lambda group: np.int64(getattr(group.batch.shape, of)[number]))

    return types.SimpleNamespace(x=axis("x", 0), y=axis("y", 1), z=axis("z", 2))


threadIdx, blockIdx = _index("threadIdx"), _index("blockIdx")
blockDim, gridDim = _extent("blockDim", "block"), _extent("gridDim", "grid")
laneid = Reading("laneid", lambda group: group.positions % WARP)
warpsize = WARP


def _grid(group, axis: int):
    first = group.coordinate("blockIdx", axis) * np.int64(group.batch.shape.block[axis])
    return first + group.coordinate("threadIdx", axis)


def _gridsize(group, axis: int):
    return np.int64(group.batch.shape.block[axis] * group.batch.shape.grid[axis])


grid, gridsize = Grid("grid", _grid), Grid("gridsize", _gridsize)
shared = types.SimpleNamespace(
    array=Allocation("shared.array", lambda group, *what: group.launch.shared_array(group, *what))
)
local = types.SimpleNamespace(
    array=Allocation("local.array", lambda group, *what: group.launch.local_array(group, *what))
)


def _barrier(group, mask, place):
    group.block_barrier(mask, place)


def _count(group, mask, place, predicate):
    if predicate.dtype.kind not in "iu":
        raise TypeError("syncthreads_count, _and and _or take an integer, as Numba has it: int(...)")
    return group.block_barrier(mask, place, full(predicate, group))


def _or(group, mask, place, predicate):
    return (_count(group, mask, place, predicate) > 0).astype(np.int64)


def _and(group, mask, place, predicate):
    return (_count(group, mask, place, (predicate == 0).astype(predicate.dtype)) == 0).astype(np.int64)


syncthreads = Operation("syncthreads", _barrier, (0,))
syncthreads_count = Operation("syncthreads_count", _count, (1,))
syncthreads_and = Operation("syncthreads_and", _and, (1,))
syncthreads_or = Operation("syncthreads_or", _or, (1,))


def _nothing(group, mask, place):
    """Memory is in order already: a fence orders nothing that the race detector looks at."""


threadfence = Operation("threadfence", _nothing, (0,))
threadfence_block = Operation("threadfence_block", _nothing, (0,))
threadfence_system = Operation("threadfence_system", _nothing, (0,))


def _fma(group, mask, place, a, b, c):
    out = a.astype(np.float64) * b + c
    return out.astype(np.result_type(a, b, c))


def _bits(value) -> int:
    return 8 * value.dtype.itemsize


def _unsigned(value):
    return np.asarray(value).astype(f"u{value.dtype.itemsize}")


def _popc(group, mask, place, value):
    return np.bitwise_count(_unsigned(value)).astype(np.int64)


def _clz(group, mask, place, value):
    return _bits(value) - _length(_unsigned(value))


def _ffs(group, mask, place, value):
    lowest = _unsigned(value) & -_unsigned(value)
    return _length(lowest)


def _length(value):
    """Position of the highest set bit, counted from 1; 0 for 0."""
    found = np.zeros(np.shape(value), dtype=np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        if shift < _bits(value):
            high = (value >> np.uint8(shift)) != 0
            found = found + np.where(high, shift, 0)
            value = np.where(high, value >> np.uint8(shift), value)
    return found + (value != 0)


def _brev(group, mask, place, value):
    number, out = _unsigned(value), np.zeros_like(_unsigned(value))
    for bit in range(_bits(value)):
        out |= ((number >> np.uint8(bit)) & np.asarray(1, number.dtype)) << np.uint8(_bits(value) - 1 - bit)
    return out.astype(value.dtype)


fma = Operation("fma", _fma, (3,), flops=2)
popc, clz = Operation("popc", _popc, (1,)), Operation("clz", _clz, (1,))
ffs, brev = Operation("ffs", _ffs, (1,)), Operation("brev", _brev, (1,))
selp = Operation("selp", lambda group, mask, place, c, a, b: np.where(c, a, b), (3,))


def synchronize() -> None:
    """Wait for the device, as ``torch.cuda.synchronize``; nothing to do without one."""
    import torch

    from gpulab.cuda.device import state

    if state.is_on() or torch.cuda.is_available():
        torch.cuda.synchronize()
