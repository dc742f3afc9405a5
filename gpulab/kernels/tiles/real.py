"""Arguments on a real GPU, and their copies on the host for the counted run. Untested on a GPU."""

import torch

from gpulab.cuda.device import state


def on_gpu(arguments: dict) -> bool:
    """Whether a real card holds one of the tensors."""
    return not state.is_on() and any(isinstance(v, torch.Tensor) and v.is_cuda for v in arguments.values())


def host_copies(arguments: dict) -> dict:
    """The same arguments in host memory; tensors that share a storage share one there too."""
    storages: dict[int, torch.UntypedStorage] = {}
    return {name: _copy(value, storages) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


def _copy(tensor: torch.Tensor, storages: dict) -> torch.Tensor:
    storage = tensor.untyped_storage()
    if storage._cdata not in storages:
        storages[storage._cdata] = storage.cpu()
    twin = torch.empty(0, dtype=tensor.dtype)
    return twin.set_(storages[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride())
