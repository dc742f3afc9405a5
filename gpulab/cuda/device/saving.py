"""``torch.save`` and ``torch.load``: storages of the card carry the tag of their card."""

import torch

from gpulab.compat.serialization import storage_registry
from gpulab.compat.tensors import untyped
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.machine.order import Extent

# Asked before PyTorch's own CPU (10) and CUDA (20) entries.
_PRIORITY = 5


def install(patches: Patches) -> None:
    """Teach the serialiser which storages are on the card."""
    entry = (_PRIORITY, _tag, _restore)
    patches.append(storage_registry, entry)
    storage_registry.sort(key=lambda e: e[0])


def _tag(storage) -> str | None:
    return str(state.CUDA) if state.device_on().memory.holds(untyped(storage)) else None


def _restore(storage, location: str):
    if not location.startswith("cuda"):
        return None
    # What another rank saved is restored on this rank's card: it has no other.
    state.check_exists(torch.device(location).index or 0)
    device = state.device_on()
    held = device.memory.adopt(storage)
    written = [(held.accesses, Extent(0, held.nbytes))]
    device.machine.copy("HtoD", held.nbytes, pinned=False, blocking=True, writes=written)
    return storage
