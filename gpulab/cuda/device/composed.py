"""Functions that PyTorch's C++ composes of a factory: what they make is a device tensor too.

A factory inside C++ is handed the options of its input, which are the host's, and no tensor by
which this device could know it.
"""

import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.machine.constants import KERNEL_FLOOR_US

Tensor = torch.Tensor
_aten = torch.ops.aten
_MEMORY_ONLY = (_aten.empty.memory_format,)
# Of each function the factories that make a device tensor; the lengths of sequences stay on the host.
_COMPOSED = (
    (torch._C._nn, "pad_sequence", (_aten.full.default,)),
    (torch._VF, "_pad_packed_sequence", (_aten.full.default,)),
    (torch, "vander", _MEMORY_ONLY),
)


def install(patches: Patches) -> None:
    """Wrap each of them."""
    for owner, name, factories in _COMPOSED:
        patches.set(owner, name, _on_card(getattr(owner, name), factories))


def _on_card(original, factories: tuple):
    @functools.wraps(original)
    def function(*args, **kwargs):
        if not _has_card(args):
            return original(*args, **kwargs)
        with FactoriesOnCard(factories):
            return original(*args, **kwargs)

    return function


def _has_card(values) -> bool:
    return any(
        isinstance(value, CudaTensor) or isinstance(value, (list, tuple)) and _has_card(value)
        for value in values
    )


class FactoriesOnCard(TorchDispatchMode):
    """Inside the block what these operations make is on the card."""

    def __init__(self, factories: tuple) -> None:
        super().__init__()
        self._factories = factories

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in self._factories:
            return func(*args, **kwargs)
        device = state.device_on()
        out = CudaTensor.tag(func(*args, **{**kwargs, "device": device.memory_of}))
        trail = device.memory.of(out).trail
        if func not in _MEMORY_ONLY:
            duration = KERNEL_FLOOR_US + out.nbytes / device.machine.card.bytes_per_s * 1e6
            name = func._schema.name.replace("::", ".")
            device.machine.kernel(name, duration, out.numel(), 0, [], [(trail, out)], 0, out.nbytes)
        if device.capture is not None:
            device.capture.record(CudaTensor, func, args, kwargs, [out])
        return out
