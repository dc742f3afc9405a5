"""The names of ``numba.cuda``: write a kernel once, run it here and on a GPU.

>>> from gpulab.kernels import cuda
>>> @cuda.jit
... def double(x):
...     i = cuda.grid(1)
...     if i < x.size:
...         x[i] *= 2
>>> double[blocks, threads](x)  # doctest: +SKIP
"""

import sys
import types

import numpy as np

from gpulab.kernels.cuda import libdevice, random
from gpulab.kernels.simt import atomics as atomic
from gpulab.kernels.simt.constants import Constant
from gpulab.kernels.simt.host import (
    default_stream,
    device_array,
    device_array_like,
    is_available,
    pinned_array,
    stream,
    synchronize,
    to_device,
)
from gpulab.kernels.simt.intrinsics import OURS, Allocation, Grid, Operation, Reading, full
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
    "activemask", "all_sync", "any_sync", "atomic", "ballot_sync", "blockDim", "blockIdx", "brev", "cbrt", "clz",
    "const", "default_stream", "device_array", "device_array_like", "eq_sync", "ffs", "fma", "grid", "gridDim",
    "gridsize", "is_available", "jit", "laneid", "lanemask_lt", "libdevice", "local", "match_all_sync",
    "match_any_sync", "nanosleep", "pinned_array", "popc", "random", "selp", "shared", "shfl_down_sync", "shfl_sync",
    "shfl_up_sync", "shfl_xor_sync", "stream", "synchronize", "syncthreads", "syncthreads_and", "syncthreads_count",
    "syncthreads_or", "syncwarp", "threadIdx", "threadfence", "threadfence_block", "threadfence_system", "to_device",
    "warpsize",
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


class Fence(Operation):
    """Orders what its thread did before it: see :mod:`gpulab.kernels.simt.releases`."""

    def compile(self, expressions, node):
        expressions.places.fences = True
        return super().compile(expressions, node)


def _fence(name: str, device: bool) -> Fence:
    def implement(group, mask, place):
        index = mask.positions()
        group.launch.releases.fence(group.who[index], group.stamp[index], device)

    return Fence(name, implement, (0,))


threadfence, threadfence_system = _fence("threadfence", True), _fence("threadfence_system", True)
threadfence_block = _fence("threadfence_block", False)


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


def _cbrt(group, mask, place, value):
    return np.cbrt(value if value.dtype.kind == "f" else value.astype(np.float64))


def _match_all(group, mask, place, asked, value):
    same = match_any_sync.implement(group, mask, place, asked, value)
    everyone = activemask.implement(group, mask, place)
    agreed = same == everyone
    return np.where(agreed, everyone, np.uint32(0)), agreed


cbrt = Operation("cbrt", _cbrt, (1,), flops=1)
match_all_sync = Operation("match_all_sync", _match_all, (2,))
nanosleep = Operation("nanosleep", lambda group, mask, place, nanoseconds: None, (1,))
const = types.SimpleNamespace(array_like=Constant("const.array_like"))

_OUTSIDE = {
    "cg": "cooperative groups: grid-wide barriers are not followed; end the kernel and launch another",
    "fp16": "its functions are the operators + - * / and < on float16 values: use those",
    "reduce": "write the kernel, or use torch.sum",
    "Reduce": "write the kernel, or use torch.sum",
    "event": "use torch.cuda.Event",
    "get_current_device": "use torch.cuda.get_device_properties()",
    "current_context": "use torch.cuda.mem_get_info()",
    "select_device": "there is one device",
    "gpus": "use torch.cuda.device_count()",
    "detect": "use torch.cuda.get_device_properties()",
    "mapped_array": "memory that host and device share is not modelled",
    "managed_array": "memory that host and device share is not modelled",
    "declare_device": "functions written in CUDA C++ are not followed",
    "vectorize": "write the kernel",
    "guvectorize": "write the kernel",
}


def __getattr__(name: str):
    why = _OUTSIDE.get(name, "this interpreter has no such name of numba.cuda")
    raise AttributeError(f"cuda.{name}: {why}", name=name)


OURS.update({"": sys.modules[__name__], ".random": random, ".libdevice": libdevice})
