"""``torch.save`` and ``torch.load``: storages of the card carry the tag of their card."""

import torch

from gpulab.compat.serialization import storage_registry
from gpulab.compat.tensors import untyped
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.tensor import CudaTensor

# Asked before PyTorch's own CPU (10) and CUDA (20) entries.
_PRIORITY = 5


def install(patches: Patches) -> None:
    """Teach the serialiser which storages are on the card, and ``set_`` whose tensor that makes."""
    entry = (_PRIORITY, _tag, _restore)
    patches.append(storage_registry, entry)
    storage_registry.sort(key=lambda e: e[0])
    set_ = torch.Tensor.set_

    def tensor_set_(self, source=None, *args, **kwargs):
        out = set_(self, *(() if source is None else (source,)), *args, **kwargs)
        if isinstance(source, torch.UntypedStorage) and not isinstance(self, CudaTensor):
            if state.is_on() and state.device_on().memory.holds(source):
                return CudaTensor.tag(out)
        return out

    patches.set(torch.Tensor, "set_", tensor_set_)


def _tag(storage) -> str | None:
    return str(state.CUDA) if state.device_on().memory.holds(untyped(storage)) else None


def _restore(storage, location: str):
    if not location.startswith("cuda"):
        return None
    # What another rank saved is restored on this rank's card: it has no other.
    state.check_exists(torch.device(location).index or 0)
    device = state.device_on()
    held = device.memory.adopt(storage)
    written = [(held.accesses, 0, held.nbytes)]
    device.machine.copy("HtoD", held.nbytes, pinned=False, blocking=True, writes=written)
    return storage
