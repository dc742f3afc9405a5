"""Public names that a card has and this device has not: they say so when they are used."""

import functools

import torch

from gpulab.cuda.device.patches import Patches
from gpulab.cuda.errors import NotModelled

_FUNCTIONS = (
    "caching_allocator_alloc", "caching_allocator_delete", "caching_allocator_disabled",
    "change_current_allocator", "clock_rate", "device_memory_used", "get_stream_from_external",
    "list_gpu_processes", "make_graphed_callables", "memory_usage",
    "power_draw", "temperature", "use_mem_pool", "utilization",
)  # fmt: skip
_CLASSES = ("CUDAPluggableAllocator", "ExternalStream", "GreenContext", "MemPool")


def install(patches: Patches) -> None:
    """Replace each by one that raises NotModelled."""
    for name in _FUNCTIONS:
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, _raising(f"torch.cuda.{name}"))
    for name in _CLASSES:
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, type(name, (), {"__new__": _raising(f"torch.cuda.{name}")}))
    _watch_profiler(patches)
    _watch_compile(patches)


def _raising(what: str):
    def missing(*args, **kwargs):
        raise NotModelled(what)

    return missing


def _watch_profiler(patches: Patches) -> None:
    # Without a card PyTorch's profiler takes the request and records nothing of the device.
    profile = torch.profiler.profile
    original = profile.__init__

    @functools.wraps(original)
    def __init__(self, *args, activities=None, **kwargs):
        if activities is not None and torch.profiler.ProfilerActivity.CUDA in activities:
            raise NotModelled("torch.profiler with ProfilerActivity.CUDA (gpulab.observe() shows kernels)")
        original(self, *args, activities=activities, **kwargs)

    patches.set(profile, "__init__", __init__)


def _watch_compile(patches: Patches) -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile(*args, **kwargs):
        raise NotModelled("torch.compile while the virtual device is on")

    patches.set(torch, "compile", compile)
