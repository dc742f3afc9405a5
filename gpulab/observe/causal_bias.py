"""PyTorch's causal biases can be made while an observation watches."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpulab.compat.tensors import make_subclass


@contextmanager
def causal_biases_can_be_made() -> Iterator[None]:
    """Inside the block, which may hold another: PyTorch's own constructor of a subclass raises under a dispatch mode."""
    # Its module brings torch._dynamo along, as the first operation under a mode does: not to be imported before.
    from torch.nn.attention.bias import CausalBias

    outermost = "__new__" not in vars(CausalBias)
    CausalBias.__new__ = _empty
    try:
        yield
    finally:
        if outermost:
            del CausalBias.__new__


def _empty(cls, *_, **__):
    return make_subclass(cls, torch.empty(0))
