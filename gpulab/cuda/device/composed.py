"""Functions that PyTorch's C++ composes of a factory: what they make is a device tensor too.

A factory inside C++ is handed the options of its input, which are the host's, and no tensor by
which this device could know it.
"""

import functools

import torch

from gpulab.compat.dispatch import DispatchMode
from gpulab.compat.functions import PAD_PACKED_SEQUENCE, linalg_functions, nn_functions
from gpulab.cuda.device import state
from gpulab.cuda.device.factories import accounted
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor

Tensor = torch.Tensor
_aten = torch.ops.aten
# Of each function the factories that make a device tensor; the lengths of sequences stay on the host.
_FACTORIES = (_aten.empty.memory_format, _aten.full.default, _aten.zeros.default, _aten.ones.default)
_COMPOSED = (
    (nn_functions, "pad_sequence", (_aten.full.default,)),
    (*PAD_PACKED_SEQUENCE, (_aten.full.default,)),
    (torch, "vander", (_aten.empty.memory_format,)),
    (torch.linalg, "matrix_rank", _FACTORIES),
    (linalg_functions, "linalg_matrix_rank", _FACTORIES),
)


def install(patches: Patches) -> None:
    """Wrap each of them."""
    for owner, name, factories in _COMPOSED:
        patches.set(owner, name, _on_card(getattr(owner, name), factories))


def _on_card(original, factories: tuple):
    @functools.wraps(original)
    def function(*args, **kwargs):
        if not _has_card(args) and not _has_card(kwargs.values()):
            return original(*args, **kwargs)
        # PyTorch's C++ leaves out= as it is where an argument is of another class than Tensor.
        out = kwargs.pop("out", None)
        with FactoriesOnCard(factories):
            result = original(*args, **kwargs)
        return result if out is None else out.resize_(result.shape).copy_(result)

    return function


def _has_card(values) -> bool:
    return any(
        isinstance(value, CudaTensor) or isinstance(value, (list, tuple)) and _has_card(value) for value in values
    )


class FactoriesOnCard(DispatchMode):
    """Inside the block what these operations make is on the card."""

    def __init__(self, factories: tuple) -> None:
        super().__init__()
        self._factories = factories

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in self._factories:
            return func(*args, **kwargs)
        out = CudaTensor.tag(func(*args, **{**kwargs, "device": state.device_on().memory_of}))
        return accounted(func._schema.name.removeprefix("aten::"), func, args, kwargs, out)
