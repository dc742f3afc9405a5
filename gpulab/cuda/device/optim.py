"""Tensors grouped by device and dtype, as ``foreach`` and ``fused`` optimizers and clipping ask."""

import torch

from gpulab.compat.functions import GROUP_TENSORS
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor

_TWO_DEVICES = (
    "Tensors of the same index must be on the same device and the same dtype except `step` tensors "
    "that can be CPU and float32/64 notwithstanding"
)


def install(patches: Patches) -> None:
    """PyTorch's C++ groups by the device that it knows, which is the host."""
    patches.set(*GROUP_TENSORS, _grouped(GROUP_TENSORS.value))


def _grouped(original):
    def group(lists, with_indices=False):
        on_card = [isinstance(tensor, CudaTensor) for tensor in lists[0]]
        if not any(on_card):
            return original(lists, with_indices)
        groups = {}
        for wanted in (True, False):
            chosen = [i for i, is_card in enumerate(on_card) if is_card == wanted]
            part = [[values[i] for i in chosen] if values else values for values in lists]
            if chosen:
                _check(part, wanted)
                groups |= _renamed(original(part, with_indices), chosen, wanted)
        return groups

    return group


def _check(lists, on_card: bool) -> None:
    others = (tensor for values in lists[1:] for tensor in values if isinstance(tensor, torch.Tensor))
    if any(tensor.dim() and isinstance(tensor, CudaTensor) != on_card for tensor in others):
        raise RuntimeError(_TWO_DEVICES)


def _renamed(groups: dict, chosen: list[int], on_card: bool) -> dict:
    return {
        (state.CUDA if on_card else device, dtype): (tensors, [chosen[i] for i in indices])
        for (device, dtype), (tensors, indices) in groups.items()
    }
