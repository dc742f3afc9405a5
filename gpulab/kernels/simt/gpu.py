"""A launch on a real GPU: ``numba-cuda`` compiles the same source. Untested where there is none."""

import types
from importlib import import_module

import torch

from gpulab.cuda.device import state
from gpulab.kernels.errors import LaunchError
from gpulab.kernels.simt.arguments import arguments_in, read_argument
from gpulab.kernels.simt.intrinsics import OURS, DeviceFunction, Operation
from gpulab.kernels.simt.virtual import tensors_in
from gpulab.observe.real import aside


def runs_here(arguments) -> bool:
    """Whether an argument lives on a real GPU."""
    return not state.is_on() and any(
        runs_here(a) if isinstance(a, tuple) else isinstance(a, torch.Tensor) and a.is_cuda for a in arguments
    )


def launch(configured, arguments, interpret) -> None:
    """Compile and launch on the GPU. ``interpret``: if given, runs the trace on copies first."""
    if interpret is not None:
        interpret(_read_copies(configured.kernel.body.names, arguments))
    kernel = _compiled(configured.kernel)
    stream = configured.stream
    if stream is None or stream == 0:
        stream = torch.cuda.current_stream()
    if isinstance(stream, torch.cuda.Stream):
        stream = _numba().external_stream(stream.cuda_stream)
    kernel[configured.grid, configured.block, stream, configured.shared_bytes](*arguments)


def _read_copies(names, arguments) -> list:
    """The arguments on the host, laid out and shared as they are on the GPU, under their tensors' names."""
    found = []
    for name, value, twin in zip(names, arguments, twins(arguments)):
        read = read_argument(name, twin)
        for argument, (_, tensor) in zip(arguments_in([read]), tensors_in([name], [value])):
            argument.tensor = tensor
        found.append(read)
    return found


def twins(arguments) -> list:
    """Each tensor over a copy on the host of its whole storage: offset, strides and sharing stay. No observation sees the copies."""
    storages: dict[int, torch.UntypedStorage] = {}

    def twin(value):
        if isinstance(value, tuple):
            parts = map(twin, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            storages[storage.data_ptr()] = storage.cpu() if value.is_cuda else storage.clone()
        copy = torch.empty(0, dtype=value.dtype)
        return copy.set_(storages[storage.data_ptr()], value.storage_offset(), value.shape, value.stride())

    with aside():
        return [twin(value) for value in arguments]


def _numba():
    try:
        from numba import cuda
    except ImportError:
        raise LaunchError("a kernel on a real GPU needs the package numba-cuda: pip install numba-cuda") from None
    return cuda


def _compiled(kernel):
    """The kernel as Numba compiles it, made once."""
    if not hasattr(kernel, "on_gpu"):
        kernel.on_gpu = _jitted(kernel, kernel.py_func, **kernel.keywords)
    return kernel.on_gpu


def _jitted(ours, function, **keywords):
    given = ours.signature_as_given
    decorate = _numba().jit(**keywords) if given is None else _numba().jit(given, **keywords)
    return decorate(_with_numbas_names(function))


def _with_numbas_names(function):
    """The function with Numba's ``cuda`` and device functions in the place of ours."""
    ours = OURS[""]

    def theirs(value):
        if value is ours:
            return _numba()
        if value is ours.random or value is ours.libdevice:
            return import_module(f"numba.cuda.{value.__name__.rpartition('.')[2]}")
        if isinstance(value, Operation) and value.name.startswith(("random.", "libdevice.")):
            module, name = value.name.split(".")
            return getattr(import_module(f"numba.cuda.{module}"), name)
        if isinstance(value, DeviceFunction):
            return _jitted(value, value.function, device=True)
        return value

    code = function.__code__
    used = set(code.co_names)
    names = {name: theirs(value) if name in used else value for name, value in function.__globals__.items()}
    cells = tuple(types.CellType(theirs(cell.cell_contents)) for cell in function.__closure__ or ())
    made = types.FunctionType(code, names, function.__name__, function.__defaults__, cells or None)
    made.__module__ = function.__module__
    return made
