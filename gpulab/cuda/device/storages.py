"""Storages of the card: their bytes reach the host by a copy that waits, as on a card.

``Tensor.data_ptr`` is left as it is: it is the address of the host memory that stands for the
card's, and what follows it by ``ctypes`` reads that memory without the machine knowing.
"""

from multiprocessing.reduction import ForkingPickler

import torch

from gpulab.compat.dispatch import DisableTorchDispatch
from gpulab.compat.tensors import SHARING, TO_DLPACK, WRITE_FILE, StorageBase, TensorBase, untyped
from gpulab.cuda.device import state, transfer
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor
from gpulab.cuda.errors import NotModelled

Storage = torch.UntypedStorage
Tensor = torch.Tensor
_device_of = StorageBase.device.__get__


def install(patches: Patches) -> None:
    """Replace the methods of ``torch.UntypedStorage`` that reach its bytes or say where it is."""
    patches.set(Storage, "device", property(_device))
    patches.set(*WRITE_FILE, _from_the_host(WRITE_FILE.value))
    for name in ("__getitem__", "__setitem__", "fill_", "copy_", "clone", "cuda", "resize_"):
        patches.set(Storage, name, _replaced(name, globals()[f"_{name.strip('_')}"]))
    for name in SHARING:
        patches.set(Storage, name, _replaced(name, _refusing(f"UntypedStorage.{name} of device memory")))
    for place in TO_DLPACK:
        if place.exists:
            patches.set(*place, _no_dlpack(place.value))
    patches.put(ForkingPickler._extra_reducers, CudaTensor, _refusing("a device tensor sent to another process"))


def on_card(storage) -> bool:
    """Whether this storage, typed or not, is memory of the device that is on."""
    return state.is_on() and state.device_on().memory.holds(untyped(storage))


def _replaced(name: str, on_the_card):
    original = getattr(Storage, name)

    def method(self, *args, **kwargs):
        takes_part = on_card(self) or name == "cuda" or name == "copy_" and on_card(args[0])
        return (on_the_card if takes_part else original)(self, *args, **kwargs)

    return method


def _flat(storage) -> Tensor:
    """Its bytes as a tensor where they are: uint8, one dimension."""
    storage = untyped(storage)
    guard = DisableTorchDispatch()
    try:
        empty = torch.empty(0, dtype=torch.uint8, device=_device_of(storage))
        flat = TensorBase.set_(empty, storage)
    finally:
        del guard
    return CudaTensor.tag(flat) if on_card(storage) else flat


def _device(self):
    return state.CUDA if on_card(self) else _device_of(self)


def _getitem(self, index):
    if isinstance(index, slice):
        raise NotModelled("a slice of a storage of device memory")
    return _flat(self)[index].item()


def _setitem(self, index, value) -> None:
    _flat(self)[index] = value


def _fill(self, value):
    _flat(self).fill_(value)
    return self


def _copy(self, source, non_blocking=None):
    _flat(self).copy_(_flat(source), non_blocking=bool(non_blocking))
    return self


def _clone(self):
    return Tensor.untyped_storage(_flat(self).clone())


def _cuda(self, device=None, non_blocking=False):
    return self if on_card(self) else Tensor.untyped_storage(transfer.to_card(_flat(self), non_blocking))


def _resize(self, nbytes: int):
    memory = state.device_on().memory
    if nbytes != self.nbytes():
        memory.moves(self)
    StorageBase.resize_(self, nbytes)
    memory.resized(self)
    return self


def _from_the_host(original):
    def method(self, *args):
        return original(self.cpu() if on_card(self) else self, *args)

    return method


def _refusing(what: str):
    def missing(*args, **kwargs):
        raise NotModelled(what)

    return missing


def _no_dlpack(original):
    def to_dlpack(tensor):
        if tensor.is_cuda:
            raise NotModelled("DLPack exchange of a device tensor")
        return original(tensor)

    return to_dlpack
