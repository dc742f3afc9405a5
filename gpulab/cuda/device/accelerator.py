"""``torch.accelerator``: the same card under its newer name."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.errors import refusing

_SAME_AS_IN_CUDA = {
    "is_available", "device_count", "current_stream", "set_stream", "synchronize", "empty_cache",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
}  # fmt: skip


def install(patches: Patches) -> None:
    """Send each function to the one of ``torch.cuda``, or make it say what it is not."""
    for name in torch.accelerator.__all__:
        patches.set(torch.accelerator, name, _replacement(name))


def _replacement(name: str):
    if name in _SAME_AS_IN_CUDA:
        return lambda *args, **kwargs: getattr(torch.cuda, name)(*args, **kwargs)
    if name == "current_accelerator":
        return lambda check_available=False: torch.device("cuda")
    if name in ("current_device_index", "current_device_idx"):
        return lambda: state.CUDA.index
    if name in ("set_device_index", "set_device_idx"):
        return lambda device: torch.cuda.set_device(device)
    if name == "get_memory_info":
        return lambda device=None: torch.cuda.mem_get_info()
    if name == "device_index":
        return _device_index
    return refusing(f"torch.accelerator.{name}")


@contextmanager
def _device_index(device: int | None) -> Iterator[None]:
    """The device of what is in the block; None is the current one."""
    with nullcontext() if device is None else torch.cuda.device(device):
        yield
