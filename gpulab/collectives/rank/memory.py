"""The bytes of tensors, as they go onto the wire and come from it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from gpulab.compat.dispatch import DisableTorchDispatch, DisableTorchFunction, disable_current_modes
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device import state, transfer
from gpulab.cuda.device.tensor import CudaTensor

Tensor = torch.Tensor
_data_ptr = TensorBase.data_ptr


@contextmanager
def unseen() -> Iterator[None]:
    """PyTorch alone: no device, no observer, no default device, no autograd."""
    with disable_current_modes(), DisableTorchFunction(), torch.no_grad():
        guard = DisableTorchDispatch()
        try:
            yield
        finally:
            del guard


def payload(tensors: list[Tensor]) -> list:
    """Their bytes, one after another; each tensor's in the order of its elements."""
    with unseen():
        return [_bytes(tensor) for tensor in tensors]


def _bytes(tensor: Tensor) -> np.ndarray:
    """Where they lie. ``Tensor.numpy()`` would forbid for good that the storage is resized; NCCL leaves it as it is."""
    plain = transfer.plain(tensor.detach()).resolve_conj().resolve_neg()
    # One element counts as contiguous whatever its stride.
    flat = plain.contiguous().as_strided((plain.numel(),), (1,))
    memory = (ctypes.c_ubyte * flat.nbytes).from_address(_data_ptr(flat))
    memory.tensor = flat  # lives as long as the array
    return np.ctypeslib.as_array(memory)


def fill(tensors: list[Tensor], data: bytearray) -> None:
    """Write what came into ``tensors``; nothing when nothing came (a ghost's, or another rank's to have).

    As NCCL writes: autograd, which counts the versions of a tensor, learns nothing of it.
    """
    if not data:
        return
    at = 0
    with unseen():
        for tensor in tensors:
            if tensor.nbytes:
                flat = torch.frombuffer(data, dtype=tensor.dtype, count=tensor.numel(), offset=at)
                transfer.plain(tensor.data).copy_(flat.view(tensor.shape))
            at += tensor.nbytes


def on_card(tensors: list[Tensor]) -> bool:
    """Whether they lie on the card; PyTorch's C++ may hand over plain tensors over its memory."""
    if not state.is_on():
        return False
    holds = state.device_on().memory.holds
    return any(isinstance(tensor, CudaTensor) or holds(tensor.untyped_storage()) for tensor in tensors)
