"""Recurrent layers: cuDNN's on a card, where PyTorch's C++ may compose them here of matrix products.

Those products, and their gradients, go by cuDNN's setting of precision.
"""

import functools
from collections.abc import Iterator

import torch

from gpulab.compat.autograd import current_graph_task, current_node
from gpulab.compat.functions import RECURRENT, script_names
from gpulab.cuda.device.patches import Patches

Tensor = torch.Tensor
_OURS = "gpulab: a product of a recurrent layer"
_PRODUCTS = ("AddmmBackward0", "MmBackward0", "BmmBackward0")
_inside = 0


def install(patches: Patches) -> None:
    """Wrap the functions behind ``torch.nn.RNN``, ``LSTM`` and ``GRU``."""
    scripted = script_names()
    for place in RECURRENT:
        original = place.value
        layer = _noted(original)
        patches.set(*place, layer)
        if id(original) in scripted:
            patches.put(scripted, id(layer), scripted[id(original)])


def is_computed() -> bool:
    """Whether the operation that is running belongs to such a layer, or to its gradient."""
    if _inside:
        return True
    return current_graph_task() != -1 and (node := current_node()) is not None and _OURS in node.metadata


def _noted(original):
    @functools.wraps(original)
    def layer(*args, **kwargs):
        global _inside
        _inside += 1
        try:
            out = original(*args, **kwargs)
        finally:
            _inside -= 1
        for node in _nodes_between(args, out):
            if node.name() in _PRODUCTS:
                node.metadata[_OURS] = True
        return out

    return layer


def _nodes_between(inputs, outputs) -> Iterator:
    """The nodes of the graph that lead from ``outputs`` to ``inputs``."""
    seen = {node for node in _nodes_of(inputs)}
    left = list(_nodes_of(outputs))
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            yield node
            left += [follower for follower, _ in node.next_functions if follower is not None]


def _nodes_of(values) -> Iterator:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _nodes_of(value)
        elif isinstance(value, Tensor) and value.grad_fn is not None:
            yield value.grad_fn
