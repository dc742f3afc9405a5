"""Public names that a card has and this device has not: they say so when they are used."""

import functools

import torch
import torch.distributed as dist

from gpulab.compat.compiling import is_off, runs_eagerly
from gpulab.compat.tensors import FakeTensorMode
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import A_FAKE, CudaTensor
from gpulab.cuda.errors import NotModelled, refusing

_FUNCTIONS = (
    "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_disabled",
    "change_current_allocator", "clock_rate", "device_memory_used", "get_stream_from_external",
    "list_gpu_processes", "make_graphed_callables", "memory_usage",
    "power_draw", "temperature", "use_mem_pool", "utilization",
    "caching_allocator_enable", "current_blas_handle", "current_solver_handle", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats",
)  # fmt: skip
_CLASSES = (
    "CUDAPluggableAllocator", "ExternalStream", "GreenContext", "MemPool",
    *(name for name in torch.cuda.__all__ if name.endswith("Storage")),
)  # fmt: skip


def install(patches: Patches) -> None:
    """Replace each by one that raises NotModelled."""
    for name in _FUNCTIONS:
        if hasattr(torch.cuda, name):
            # Dynamo, imported meanwhile, asks a context manager for the function in it.
            patches.set(torch.cuda, name, functools.wraps(getattr(torch.cuda, name))(refusing(f"torch.cuda.{name}")))
    for name in _CLASSES:
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, _Missing(name, (), {"__module__": "torch.cuda"}))
    _watch_compile(patches)
    _refuse_fakes(patches)
    _refuse_lazy(patches)
    _refuse_nccl(patches)


class _Missing(type):
    """A class that says so when it is called, or asked for a function of its own: ``GreenContext.create``."""

    def __call__(cls, *args, **kwargs):
        raise NotModelled(f"{cls.__module__}.{cls.__name__}")

    def __getattr__(cls, name: str):
        raise NotModelled(f"{cls.__module__}.{cls.__name__}.{name}")


def _refuse_fakes(patches: Patches) -> None:
    # PyTorch's C++ would end the process: it has no guard for the device that the fake would be on.
    original = FakeTensorMode.from_tensor

    @functools.wraps(original)
    def from_tensor(self, tensor, *args, **kwargs):
        if isinstance(tensor, CudaTensor):
            raise NotModelled(A_FAKE)
        return original(self, tensor, *args, **kwargs)

    patches.set(FakeTensorMode, "from_tensor", from_tensor)


def _refuse_lazy(patches: Patches) -> None:
    for kind in (torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer):
        patches.set(kind, "__new__", _on_host_only(kind.__new__))


def _on_host_only(original):
    @functools.wraps(original)
    def __new__(cls, *args, device=None, **kwargs):
        wanted = state.default_device() if device is None else device
        if state.is_cuda(wanted):
            raise NotModelled("a lazy module made on the device (make it on the host and run one batch there)")
        return original(cls, *args, device=device, **kwargs)

    return __new__


def _refuse_nccl(patches: Patches) -> None:
    if not dist.is_available():
        return
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(backend=None, *args, **kwargs):
        if "nccl" in str(backend).lower() and not dist.is_nccl_available():
            raise NotModelled(
                "NCCL outside of ranks (gpulab.collectives.run_ranks(fn, world_size) starts them; their process group is there)"
            )
        return original(backend, *args, **kwargs)

    for module in (dist, dist.distributed_c10d):
        patches.set(module, "init_process_group", init_process_group)


_COMPILE = (
    "torch.compile while the virtual device is on (the function as it is: torch.compile(..., disable=True), "
    "TORCH_COMPILE_DISABLE=1 or torch.compiler.set_stance('force_eager'); what would be fused: gpulab.kernels.fusion.watch)"
)


def _watch_compile(patches: Patches) -> None:
    patches.set(torch, "compile", _only_where_nothing_is_compiled(torch.compile))


def _only_where_nothing_is_compiled(original):
    @functools.wraps(original)
    def compile(model=None, *, disable=False, **options):
        if disable or is_off():
            return (lambda model: model) if model is None else model
        _check_that_nothing_is_compiled()
        if model is None:
            return functools.partial(compile, **options)
        return _checked(original(model, **options))

    return compile


def _check_that_nothing_is_compiled() -> None:
    if not runs_eagerly():
        raise NotModelled(_COMPILE)


def _checked(compiled):
    """``compiled``, which may run as long as nothing is compiled: a stance ends."""
    if isinstance(compiled, torch.nn.Module):
        compiled.forward = _checked(compiled.forward)
        return compiled

    @functools.wraps(compiled)
    def run(*args, **kwargs):
        if state.is_on():
            _check_that_nothing_is_compiled()
        return compiled(*args, **kwargs)

    return run
