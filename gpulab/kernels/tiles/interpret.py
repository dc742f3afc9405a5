"""One launch under the interpreter: every program of the grid, one after another."""

import contextlib
import functools
import inspect
import itertools
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType

import numpy as np
import torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from gpulab.compat.triton import JITFunction, TensorWrapper, TritonSemantic, core
from gpulab.compat.triton import math as triton_math
from gpulab.compat.triton_interpreter import (
    BUILDER,
    SEMANTIC,
    LanguageScope,
    ReduceOps,
    ScanOps,
    patch_builtins,
    patch_language,
    patch_tensor,
)
from gpulab.kernels.tiles import language, libdevice, taint
from gpulab.kernels.tiles.builder import MAX_TURNS, CountingBuilder, TensorHandle
from gpulab.kernels.tiles.counts import Counts, Faults
from gpulab.kernels.tiles.errors import EnoughAccesses
from gpulab.kernels.tiles.memory import AddressSpace
from gpulab.kernels.tiles.rewrite import Language, interpretable
from gpulab.observe.launches import ThreadRace

_DTYPES = {
    torch.bool: tl.int1, torch.uint8: tl.uint8, torch.int8: tl.int8, torch.int16: tl.int16,
    torch.uint16: tl.uint16, torch.int32: tl.int32, torch.uint32: tl.uint32, torch.int64: tl.int64,
    torch.uint64: tl.uint64, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32, torch.float64: tl.float64,
}  # fmt: skip

_PATIENCE = 1000
_builder = CountingBuilder()
_semantic = TritonSemantic(_builder)
_library = libdevice.bound(_semantic, _builder.refuse)
_language = Language(_semantic, _library, _builder.turn)
_one_at_a_time = threading.RLock()


class Run:
    """What one launch reads, writes and leaves behind. ``counts`` is None when nobody asks."""

    def __init__(self, arguments: dict, grid: tuple[int, int, int], counted: bool) -> None:
        self.space = AddressSpace()
        self.faults = Faults()
        self.turns, self.most_turns = 0, MAX_TURNS
        self.accesses, self.most_accesses = 0, math.inf
        self.prints = True
        for array, tensor in tensors_of(arguments):
            self.space.add(array, tensor)
        self.counts = Counts(self.space, grid) if counted else None


def interpret(
    fn: FunctionType,
    arguments: dict,
    constants: set[str],
    grid: tuple[int, int, int],
    counted: bool,
    backwards: bool = False,
) -> Run:
    """Run kernel ``fn`` on CPU memory; returns what happened.

    arguments: each parameter's value; tensors are read and written in place. constants: names of
    the ``tl.constexpr`` ones. ``backwards``: the last program first. Raises CompileError,
    DeviceAssertion, EndlessLoop, TypeError, ValueError and what the kernel's own lines raise.
    """
    run = Run(arguments, grid, counted)
    _go_through(run, fn, arguments, constants, grid, _programs(grid, backwards))
    return run


def interpret_both_ways(
    fn: FunctionType, arguments: dict, constants: set[str], grid: tuple[int, int, int], counted: bool
) -> Run:
    """As :func:`interpret`, and when atomics put programs in order, the races of the other order too.

    Values and counts are those of the first program first. A second run that fails adds nothing: a
    program may wait for one before it. Inside :func:`sampled` one program runs, and races are not sought.
    """
    if _samples:
        return _samples[-1].run(fn, arguments, constants, grid, counted)
    run = Run(arguments, grid, counted)
    before = run.space.contents() if counted and math.prod(grid) > 1 and "atomic" in _sources(fn) else None
    _go_through(run, fn, arguments, constants, grid, _programs(grid))
    if before is not None and run.counts.order.acquired:
        with run.space.holding(before):
            run.counts.adopt(_races_backwards(fn, arguments, constants, grid))
    return run


def _races_backwards(fn, arguments, constants, grid) -> tuple[ThreadRace, ...]:
    again = Run(arguments, grid, True)
    again.most_turns, again.prints = _PATIENCE, False
    with contextlib.suppress(Exception):
        _go_through(again, fn, arguments, constants, grid, _programs(grid, backwards=True))
    return again.counts.races()


def _sources(fn: FunctionType) -> str:
    """Source of a kernel and of the device functions that it names."""
    named = [
        value
        for name, value in language.names_in_scope(fn).items()
        if name in fn.__code__.co_names + fn.__code__.co_freevars
    ]
    return inspect.getsource(fn) + "".join(value.src for value in named if isinstance(value, JITFunction))


@contextmanager
def sampled(accesses: int) -> Iterator[list[bool]]:
    """A block whose launches are sampled: of a grid the first program alone runs, or the last, for sizes that would take minutes.

    Both are tried, on the same memory, and the :class:`Run` is that of the one which moves more bytes,
    the first when they move the same. ``accesses``: loads, stores and atomics of a program, after which
    it is left. Yields whether the programs of each launch came to their ends, in order of launches.
    For those who count launches: what a sampled launch leaves in memory is of no use.
    """
    sample = _Sample(accesses)
    _samples.append(sample)
    try:
        yield sample.ended
    finally:
        _samples.remove(sample)


class _Sample:
    def __init__(self, accesses: int) -> None:
        self.accesses = accesses
        self.ended: list[bool] = []

    def run(self, fn, arguments, constants, grid, counted) -> Run:
        ends = dict.fromkeys(((0, 0, 0), tuple(n - 1 for n in grid)))
        runs = [Run(arguments, grid, counted) for _ in ends]
        self.ended.append(all([self._ends(run, fn, arguments, constants, grid, end) for run, end in zip(runs, ends)]))
        return (
            max(runs, key=lambda run: sum(use.read_bytes + use.written_bytes for use in run.counts.arrays()))
            if counted
            else runs[0]
        )

    def _ends(self, run: Run, fn, arguments, constants, grid, program) -> bool:
        run.most_accesses = self.accesses
        try:
            _go_through(run, fn, arguments, constants, grid, [program])
        except EnoughAccesses:
            return False
        return True


_samples: list[_Sample] = []


def _go_through(
    run: Run,
    fn,
    arguments: dict,
    constants: set[str],
    grid: tuple[int, int, int],
    programs: Iterable[tuple[int, int, int]],
) -> None:
    body = interpretable(fn, _language, True)
    with _one_at_a_time, _patched(run), np.errstate(all="ignore"):
        _builder.set_grid_dim(*grid)
        _builder.grid_idx = (0, 0, 0)
        regions = iter(run.space.regions.values())
        values = {
            name: value if name in constants else _converted(name, value, regions) for name, value in arguments.items()
        }
        for program in programs:
            _builder.set_grid_idx(*program)
            run.turns = 0
            if run.counts is not None:
                run.counts.begin(program)
            body(**values)


def _programs(grid: tuple[int, int, int], backwards: bool = False) -> Iterable[tuple[int, int, int]]:
    # x fastest, as a GPU numbers its blocks.
    programs = ((x, y, z) for z, y, x in itertools.product(*(range(n) for n in reversed(grid))))
    return reversed(list(programs)) if backwards else programs


def tensors_of(arguments: dict) -> Iterator[tuple[str, torch.Tensor]]:
    """The arrays among a launch's arguments, in order, each with a name."""
    for name, value in arguments.items():
        yield from _tensors(name, value)


def _tensors(name: str, value) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, TensorDescriptor):
        yield name, value.base
    elif isinstance(value, TensorWrapper):
        yield name, value.base
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            yield from _tensors(f"{name}[{position}]", item)


def _converted(name: str, value, regions: Iterator):
    """A launch argument as the interpreter wants it; pointers come from ``regions``, in order."""
    if isinstance(value, torch.Tensor):
        return _pointer(name, value, next(regions))
    if isinstance(value, bool):
        return _scalar(np.bool_(value), tl.int1)
    if isinstance(value, int):
        return _integer(name, value)
    if isinstance(value, tuple):
        items = [_converted(f"{name}[{i}]", item, regions) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, TensorWrapper):
        return _reinterpreted(name, value, next(regions))
    if isinstance(value, TensorDescriptor):
        return _descriptor(name, value, regions)
    if value is None or isinstance(value, (float, JITFunction, tl.constexpr)):
        return value
    raise TypeError(f"{name}: a Triton kernel takes tensors, numbers and None, not a {type(value).__name__}")


def _pointer(name: str, tensor: torch.Tensor, region):
    if tensor.dtype not in _DTYPES:
        raise TypeError(f"{name}: {tensor.dtype} is not modelled by Triton's interpreter; run it on a GPU")
    return _pointer_to(_DTYPES[tensor.dtype], region)


def _reinterpreted(name: str, wrapped: TensorWrapper, region):
    """``triton.reinterpret``: the tensor's bytes read as another type of the same width."""
    kind = _DTYPES.get(wrapped.dtype, wrapped.dtype)
    if kind not in _DTYPES.values() or _bytes_of(kind) != wrapped.base.element_size():
        raise TypeError(
            f"{name}: {wrapped.base.dtype} as {wrapped.dtype} is not modelled by Triton's interpreter; run it on a GPU"
        )
    return _pointer_to(kind, region)


def _bytes_of(kind) -> int:
    return max(1, kind.primitive_bitwidth // 8)


def _pointer_to(element, region):
    kind = tl.pointer_type(element)
    return tl.tensor(TensorHandle(np.array([region.begin], np.uint64), kind), kind)


def _integer(name: str, value: int):
    if -(2**31) <= value < 2**31:
        return _scalar(np.int32(value), tl.int32)
    if -(2**63) <= value < 2**63:
        return _scalar(np.int64(value), tl.int64)
    if 0 <= value < 2**64:
        return _scalar(np.uint64(value), tl.uint64)
    raise OverflowError(f"{name}: {value} does not fit in 64 bits")


def _scalar(value: np.generic, kind):
    return tl.tensor(TensorHandle(np.array([value]), kind), kind)


def _descriptor(name: str, value: TensorDescriptor, regions: Iterator):
    *outer, _ = (_integer(name, stride) for stride in value.strides)
    return _semantic.make_tensor_descriptor(
        base=_pointer(name, value.base, next(regions)),
        shape=[_integer(name, size) for size in value.shape],
        strides=[*outer, tl.constexpr(1)],
        block_shape=[tl.constexpr(size) for size in value.block_shape],
        padding_option=value.padding,
    )


# ---- Triton's language, turned to the interpreter inside a launch


@contextmanager
def _patched(run: Run) -> Iterator[None]:
    scope = LanguageScope()
    before, _builder.run = _builder.run, run
    scope.set_attr(*BUILDER, _builder)
    scope.set_attr(*SEMANTIC, _semantic)
    try:
        for module in (tl, core, triton_math):
            patch_builtins(module, _builder, scope)
        for kind in (core.tensor, core.tensor_descriptor_base):
            patch_builtins(kind, _builder, scope)
        patch_tensor(core.tensor, scope)
        # 3.6's own fails with NumPy 2.4.
        scope.set_attr(core.tensor, "__index__", lambda self: int(self.handle.data.squeeze()))
        scope.set_attr(core.tensor, "__bool__", _chosen(core.tensor.__bool__))
        scope.set_attr(core.tensor, "__index__", _chosen(core.tensor.__index__))
        scope.set_attr(core.tensor, "T", property(_transposed))
        for module in (tl, core):
            patch_language(module, scope)
            scope.set_attr(module, "device_print", _printing(module.device_print))
            scope.set_attr(module, "reduce", _reduce)
            scope.set_attr(module, "associative_scan", _scan)
        for module, (name, function) in itertools.product(libdevice.modules(), _library.items()):
            if hasattr(module, name):
                scope.set_attr(module, name, function)
        scope.set_attr(JITFunction, "__call__", _library_function)
        # x.sum() as tl.sum(x): the library's functions stand in the class of tensors.
        scope.set_attr(JITFunction, "__get__", _bound)
        yield
    finally:
        scope.restore()
        _builder.run = before


def device_function(fn: FunctionType, *args, **kwargs):
    """Call another of the learner's jit functions from inside a kernel."""
    return interpretable(fn, _language, True)(*args, **kwargs)


def interpreting() -> bool:
    """Whether a kernel is running under the interpreter now."""
    return _builder.run is not None


def _library_function(function: JITFunction, *args, **kwargs):
    return interpretable(function.fn, _language, False)(*args, **kwargs)


def _bound(function: JITFunction, tensor, kind):
    return function if tensor is None else functools.partial(function, tensor)


def _chosen(convert):
    """A tensor's ``__bool__`` or ``__index__``: the program goes the way that it says."""

    def converted(tensor):
        _builder.decides(tensor.handle)
        return convert(tensor)

    return converted


def _printing(device_print):
    def printed(prefix, *args, **kwargs):
        if not isinstance(prefix, (str, tl.constexpr)):
            _builder.refuse('print and tl.device_print take a text first, as Triton has them: print("x =", x)')
        return device_print(prefix, *args, **kwargs)

    return printed


def _transposed(tensor):
    return _semantic.permute(tensor, (*range(len(tensor.shape) - 2), len(tensor.shape) - 1, len(tensor.shape) - 2))


def _reduce(input, axis, combine_fn, keep_dims=False, **kwargs):
    if len(_all(input)) > 1:
        _builder.refuse_unordered(_all(input)[0].handle)
    result = _Reduction(axis, combine_fn, keep_dims).apply(input)
    return _reported(input, result, taint.reduced(_all(input), axis, keep_dims))


class _Reduction(ReduceOps):
    def min_max(self, input, val_reduce_op, idx_reduce_op=None):
        # NumPy's own warn of a block in which all is NaN.
        quiet = {np.nanmax: np.fmax.reduce, np.nanmin: np.fmin.reduce}
        return super().min_max(input, quiet.get(val_reduce_op, val_reduce_op), idx_reduce_op)


def _scan(input, axis, combine_fn, reverse=False, **kwargs):
    result = ScanOps(axis, combine_fn, reverse).apply(input)
    return _reported(input, result, taint.scanned(_all(input), axis, reverse))


def _all(tensors) -> tuple:
    return tensors if isinstance(tensors, tuple) else (tensors,)


def _reported(source, result, known):
    # The first of several inputs is what is compared or added; the others are carried along.
    _builder.reduced(_all(source)[0].handle, _all(result)[0].handle)
    for tensor in _all(result):
        taint.marked(tensor.handle, *known)
    return result
