"""Moving a module whose parameters are still in use: by an autograd graph, a view or a weak reference.

A parameter keeps its identity by trading places with the tensor on the other side. PyTorch refuses
that as soon as anything else holds the old one; where a card is real it need not, since it only
changes the parameter's ``data``. For the same reason a gradient trades places with an alias of what
it becomes: a function given to ``Module._apply`` may return one tensor several times.
"""

import functools
from types import FrameType

import torch

from gpulab.compat.tensors import APPLY_CODE, swap_implementations
from gpulab.cuda.device.patches import Patches

_HELD_ELSEWHERE = ("use_count", "weakref")


def install(patches: Patches) -> None:
    """Let ``torch.utils.swap_tensors`` go on where PyTorch's refuses."""
    patches.set(torch.utils, "swap_tensors", _lenient(torch.utils.swap_tensors))


def _lenient(original):
    @functools.wraps(original)
    def swap_tensors(one, other):
        try:
            original(one, other)
        except RuntimeError as refusal:
            if not any(word in str(refusal) for word in _HELD_ELSEWHERE):
                raise
            _trade(one, other)

    return swap_tensors


def alias_for_apply(other: torch.Tensor, caller: FrameType) -> torch.Tensor:
    """What a gradient is to trade places with: where ``Module._apply`` asks, an alias; a parameter is one already."""
    if caller.f_code is not APPLY_CODE or isinstance(other, torch.nn.Parameter):
        return other
    return other.detach().requires_grad_(other.requires_grad)


def _trade(one, other) -> None:
    for tensor in (one, other):
        if tensor.is_leaf and tensor.requires_grad:
            torch.autograd.graph.get_gradient_edge(tensor).node.register_prehook(_moved_meanwhile)
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    swap_implementations(one, other)


def _moved_meanwhile(gradients) -> None:
    raise RuntimeError(
        "backward through a graph of before its module was moved or converted: on the virtual device "
        "move it before the forward pass, or after the backward pass"
    )
