"""One launch under the interpreter: every program of the grid, one after another."""

import functools
import itertools
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from gpulab.kernels.tiles.builder import CountingBuilder, TensorHandle
from gpulab.kernels.tiles.counts import Counts, Faults
from gpulab.kernels.tiles.memory import AddressSpace
from gpulab.kernels.tiles.rewrite import interpretable

OLDEST, TOO_NEW = (3, 6), (3, 10)
_found = tuple(int(part) for part in triton.__version__.split(".")[:2])
if not OLDEST <= _found < TOO_NEW:
    raise ImportError(
        f"gpulab.kernels knows the interpreters of Triton {OLDEST[0]}.{OLDEST[1]} to "
        f"{TOO_NEW[0]}.{TOO_NEW[1] - 1}, and this is {triton.__version__}: pip install 'triton==3.7.1'"
    )

_DTYPES = {
    torch.bool: tl.int1, torch.uint8: tl.uint8, torch.int8: tl.int8, torch.int16: tl.int16,
    torch.uint16: tl.uint16, torch.int32: tl.int32, torch.uint32: tl.uint32, torch.int64: tl.int64,
    torch.uint64: tl.uint64, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32, torch.float64: tl.float64,
}  # fmt: skip

_builder = CountingBuilder()
_semantic = TritonSemantic(_builder)
_one_at_a_time = threading.RLock()


class Run:
    """What one launch reads, writes and leaves behind. ``counts`` is None when nobody asks."""

    def __init__(self, arguments: dict, grid: tuple[int, int, int], counted: bool) -> None:
        self.space = AddressSpace()
        self.faults = Faults()
        for array, tensor in tensors_of(arguments):
            self.space.add(array, tensor)
        self.counts = Counts(self.space, grid) if counted else None


def interpret(fn: FunctionType, arguments: dict, constants: set[str], grid: tuple[int, int, int], counted: bool, backwards: bool = False) -> Run:
    """Run kernel ``fn`` on CPU memory; returns what happened.

    arguments: each parameter's value; tensors are read and written in place. constants: names of
    the ``tl.constexpr`` ones. ``backwards``: the last program first. Raises CompileError,
    DeviceAssertion, TypeError, ValueError and what the kernel's own lines raise.
    """
    run = Run(arguments, grid, counted)
    body = interpretable(fn, _semantic, True)
    with _one_at_a_time, _patched(run), np.errstate(all="ignore"):
        _builder.set_grid_dim(*grid)
        _builder.grid_idx = (0, 0, 0)
        regions = iter(run.space.regions.values())
        values = {
            name: value if name in constants else _converted(name, value, regions)
            for name, value in arguments.items()
        }
        for program in _programs(grid, backwards):
            _builder.set_grid_idx(*program)
            if run.counts is not None:
                run.counts.begin(program)
            body(**values)
    return run


def _programs(grid: tuple[int, int, int], backwards: bool) -> Iterable[tuple[int, int, int]]:
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
        return type(value)(_converted(f"{name}[{i}]", item, regions) for i, item in enumerate(value))
    if isinstance(value, TensorDescriptor):
        return _descriptor(name, value, regions)
    if value is None or isinstance(value, (float, JITFunction, tl.constexpr)):
        return value
    raise TypeError(f"{name}: a Triton kernel takes tensors, numbers and None, not a {type(value).__name__}")


def _pointer(name: str, tensor: torch.Tensor, region):
    if tensor.dtype not in _DTYPES:
        raise TypeError(f"{name}: {tensor.dtype} is not modelled by Triton's interpreter; run it on a GPU")
    kind = tl.pointer_type(_DTYPES[tensor.dtype])
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
    scope = interpreter._LangPatchScope()
    before, _builder.run = _builder.run, run
    scope.set_attr(interpreter, "interpreter_builder", _builder)
    scope.set_attr(interpreter, "interpreter_semantic", _semantic)
    try:
        for module in (tl, tl.core, tl.math):
            interpreter._patch_builtin(module, _builder, scope)
        for kind in (tl.core.tensor, tl.core.tensor_descriptor_base):
            interpreter._patch_builtin(kind, _builder, scope)
        interpreter._patch_lang_tensor(tl.core.tensor, scope)
        # 3.6's own fails with NumPy 2.4.
        scope.set_attr(tl.core.tensor, "__index__", lambda self: int(self.handle.data.squeeze()))
        for module in (tl, tl.core):
            interpreter._patch_lang_core(module, scope)
            scope.set_attr(module, "reduce", _reduce)
            scope.set_attr(module, "associative_scan", _scan)
        scope.set_attr(JITFunction, "__call__", _library_function)
        # x.sum() as tl.sum(x): the library's functions stand in the class of tensors.
        scope.set_attr(JITFunction, "__get__", _bound)
        yield
    finally:
        scope.restore()
        _builder.run = before


def device_function(fn: FunctionType, *args, **kwargs):
    """Call another of the learner's jit functions from inside a kernel."""
    return interpretable(fn, _semantic, True)(*args, **kwargs)


def interpreting() -> bool:
    """Whether a kernel is running under the interpreter now."""
    return _builder.run is not None


def _library_function(function: JITFunction, *args, **kwargs):
    return interpretable(function.fn, _semantic, False)(*args, **kwargs)


def _bound(function: JITFunction, tensor, kind):
    return function if tensor is None else functools.partial(function, tensor)


def _reduce(input, axis, combine_fn, keep_dims=False, **kwargs):
    return _reported(input, interpreter.ReduceOps(axis, combine_fn, keep_dims).apply(input))


def _scan(input, axis, combine_fn, reverse=False, **kwargs):
    return _reported(input, interpreter.ScanOps(axis, combine_fn, reverse).apply(input))


def _reported(source, result):
    # The first of several inputs is what is compared or added; the others are carried along.
    first, out = (x[0] if isinstance(x, tuple) else x for x in (source, result))
    _builder.reduced(first.handle, out.handle)
    return result
