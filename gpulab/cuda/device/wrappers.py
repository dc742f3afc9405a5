"""Tensors that are made of others: a DTensor, a jagged nested tensor, a quantised weight.

PyTorch's C++ is told that they lie on the host, as it is of device tensors: it ends the process where autograd asks
for the stream of a card that its build does not know. In Python they are where they say.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpulab.compat.tensors import MAKE_WRAPPER_SUBCLASS, WRAPPER_ARGUMENTS
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches

Tensor = torch.Tensor
HOST = torch.device("cpu")
_MARK = "_is_on_the_card"
_parts_move = False


def install(patches: Patches) -> None:
    """Replace what makes them."""
    patches.set(*MAKE_WRAPPER_SUBCLASS, staticmethod(_make_wrapper_subclass))
    patches.set(Tensor, "get_device", _get_device(Tensor.get_device))


def _make_wrapper_subclass(cls, *args, **kwargs):
    named = dict(zip(WRAPPER_ARGUMENTS, args)) | kwargs
    device = named.get("device")
    if device is None or not state.is_cuda(device):
        return _make(cls, *args, **kwargs)
    made = _make(cls, **named | {"device": HOST, "dispatch_device": False})
    vars(made)[_MARK] = True
    return made


_make = MAKE_WRAPPER_SUBCLASS.value


def is_on_card(tensor: Tensor) -> bool:
    """Whether a tensor that is none of the card's own says that it is on the card."""
    return type(tensor) is not Tensor and _MARK in vars(tensor)


def _get_device(original):
    def get_device(self) -> int:
        return state.CUDA.index if is_on_card(self) else original(self)

    return get_device


def moved(source: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
    """``source`` with all that it is made of on ``device``, as its class converts it."""
    with _what_it_is_made_of_moves():
        return torch.ops.aten._to_copy.default(source, device=device, non_blocking=non_blocking)


@contextmanager
def _what_it_is_made_of_moves() -> Iterator[None]:
    global _parts_move
    before, _parts_move = _parts_move, True
    try:
        yield
    finally:
        _parts_move = before


def part_leaves_the_card(op: str, device) -> bool:
    """Whether ``op`` with this ``device`` takes a part to the host. Elsewhere C++ means "the same device" by it."""
    return _parts_move and op == "aten._to_copy" and device == HOST
