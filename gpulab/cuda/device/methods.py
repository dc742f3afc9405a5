"""Methods of host tensors that reach for the device: ``to``, ``cuda``, pinning, late reads."""

import torch

from gpulab.cuda.device import state, transfer
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import converted

Tensor = torch.Tensor
_to, _numpy, _tolist, _type_as = Tensor.to, Tensor.numpy, Tensor.tolist, Tensor.type_as


def install(patches: Patches) -> None:
    """Replace them on torch.Tensor."""
    for method in (to, type_as, cuda, pin_memory, is_pinned, numpy, tolist):
        patches.set(Tensor, method.__name__, method)


def to(self, *args, **kwargs):
    if _stays_on_host(args, kwargs):
        return _to(self, *args, **kwargs)
    return converted(self, *args, **kwargs)


def type_as(self, other):
    return converted(self, other.device, other.dtype) if other.is_cuda else _type_as(self, other)


def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    return converted(self, "cuda" if device is None else device, non_blocking=non_blocking)


def pin_memory(self, device=None):
    pinned = state.device_on().pinned
    if pinned.trail_of(self) is not None:
        return self
    return pinned.pin(self.clone(memory_format=torch.preserve_format))


def is_pinned(self, device=None):
    return state.device_on().pinned.trail_of(self) is not None


def numpy(self, *args, **kwargs):
    _host_reads(self, "numpy")
    return _numpy(self, *args, **kwargs)


def tolist(self):
    _host_reads(self, "tolist")
    return _tolist(self)


def _stays_on_host(args, kwargs) -> bool:
    device = kwargs.get("device", args[0] if args else None)
    if isinstance(device, Tensor):
        return not device.is_cuda
    if isinstance(device, (str, torch.device, int)):
        return not state.is_cuda(device)
    return not isinstance(kwargs.get("other"), Tensor) or not kwargs["other"].is_cuda


def _host_reads(tensor: Tensor, op: str) -> None:
    device = state.device_on()
    trail = device.pinned.trail_of(tensor)
    if trail is not None:
        device.machine.host_access(trail, writes=False, op=op)
