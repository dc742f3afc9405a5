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
    _watch_compile(patches)


def _raising(what: str):
    def missing(*args, **kwargs):
        raise NotModelled(what)

    return missing


def _watch_compile(patches: Patches) -> None:
    original = torch.compile

    @functools.wraps(original)
    def compile(*args, **kwargs):
        raise NotModelled("torch.compile while the virtual device is on")

    patches.set(torch, "compile", compile)
