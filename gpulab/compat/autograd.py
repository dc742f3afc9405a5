"""Autograd's engine, its graph and what it saves."""

import torch

from gpulab.compat.places import Place

MAKE_GRADS = Place(torch.autograd, "_make_grads")
"""First gradients of a call of ``backward`` or ``grad``: ``(outputs, gradients, ...)``."""
RUN_BACKWARD = (Place(torch.autograd.graph, "_engine_run_backward"), Place(torch.autograd, "_engine_run_backward"))
"""Where ``backward`` and ``grad`` find the engine; both hold one function."""
RUN_BACKWARD_CODE = torch.autograd.graph._engine_run_backward.__code__

current_graph_task = torch._C._current_graph_task_id
"""Number of the backward pass that this thread works for; -1 outside."""
current_node = torch._C._current_autograd_node
"""The node of the graph whose gradient this thread computes, or None."""
sequence_number = torch._C._autograd._get_sequence_nr
"""That the next node of the graph will have."""
saved_tensor_hooks = torch._C._autograd._top_saved_tensors_default_hooks
"""Those in force: ``(pack, unpack)`` or None."""


def queue_callback(function) -> None:
    """Call ``function`` at the end of the backward pass that is running."""
    torch.autograd.Variable._execution_engine.queue_callback(function)
