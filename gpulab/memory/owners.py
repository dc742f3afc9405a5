"""Whose a storage is: the model's, the gradients', the optimizer's or the cache's."""

from collections.abc import Iterator
from typing import Any

import torch

from gpulab.compat.dispatch import is_traceable_wrapper_subclass


def storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    """The storages behind a tensor: those of its parts where it is a wrapper (a quantised weight)."""
    if is_traceable_wrapper_subclass(tensor):
        for part in (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]):
            # A distributed tensor names its mesh among its parts.
            if isinstance(part, torch.Tensor):
                yield from storages(part)
    elif tensor.layout == torch.strided:
        yield tensor.untyped_storage()
    else:
        raise ValueError(f"a tensor of layout {tensor.layout} has no storage of its own: its bytes are not told apart")


def tensors_in(holder: Any, seen: set[int] | None = None) -> Iterator[torch.Tensor]:
    """The tensors in lists, dictionaries and the attributes of objects, however deep."""
    seen = set() if seen is None else seen
    if isinstance(holder, torch.Tensor):
        yield holder
        return
    if id(holder) in seen or isinstance(holder, (str, bytes, type)):
        return
    seen.add(id(holder))
    if isinstance(holder, dict):
        inside = list(holder.values())
    elif isinstance(holder, (list, tuple, set, frozenset)):
        inside = list(holder)
    else:
        inside = list(getattr(holder, "__dict__", {}).values())
    for one in inside:
        yield from tensors_in(one, seen)


class Owners:
    """The model, its optimizer and its caches, asked anew each time: any of them may have grown."""

    def __init__(self, model: torch.nn.Module, optimizer: Any, cache: Any) -> None:
        self.model, self.optimizer, self.cache = model, optimizer, cache

    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.model.parameters())

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each tensor with its kind. What stands first wins where two kinds share a storage."""
        for tensor in (*self.parameters(), *self.model.buffers()):
            yield "parameters", tensor
        for tensor in tensors_in(self.cache):
            yield "cache", tensor
        yield from self._optimizers()
        for parameter in self.parameters():
            if parameter.grad is not None:
                yield "gradients", parameter.grad

    def _optimizers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Its state, and the weights that only it has, with their gradients: a master copy."""
        if self.optimizer is None:
            return
        for tensor in tensors_in(dict(self.optimizer.state)):
            yield "optimizer", tensor
        own = {id(parameter) for parameter in self.parameters()}
        for group in self.optimizer.param_groups:
            for tensor in (p for p in group["params"] if id(p) not in own):
                yield "optimizer", tensor
                if tensor.grad is not None:
                    yield "gradients", tensor.grad
