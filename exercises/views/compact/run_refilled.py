"""A caller's memory that is filled anew between two calls, as a camera's buffer is."""

from collections.abc import Callable

import torch


def zeroed_first(call: Callable[[], object], *tensors: torch.Tensor) -> None:
    """``call`` once while the tensors' storages hold zeros; then they hold what they held before.

    What is kept of that call, by objects, addresses or shapes, is wrong afterwards.
    """
    storages = {storage.data_ptr(): storage for storage in (tensor.untyped_storage() for tensor in tensors)}
    memories = [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in storages.values()]
    kept = [memory.clone() for memory in memories]
    for memory in memories:
        memory.zero_()
    call()
    for memory, held in zip(memories, kept):
        memory.copy_(held)
