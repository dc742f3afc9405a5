"""The tensors among an operator's arguments or results: by its schema they are tensors, or lists of them."""

from collections.abc import Iterable

import torch


def tensors_of(values: Iterable) -> list[torch.Tensor]:
    """All tensors in ``values`` and in the lists and tuples there, in order."""
    found: list[torch.Tensor] = []
    _add(values, found)
    return found


def _add(values: Iterable, found: list[torch.Tensor]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            _add(value, found)
