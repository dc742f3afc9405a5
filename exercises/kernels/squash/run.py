"""E7.5 squash: what runs beside the learner's function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import patch

import torch

import gpulab.cuda
from autograder.runner.card import idle_card
from autograder.runner.kernels_ran import on_host
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner, describe
from gpulab.compat.dispatch import OpOverload
from gpulab.observe.lines import is_learners_file

SIZE_FROM_VALUES = "torch.size_from_values"
"""Stands among a graph's operations when a tensor in it is as large as values decide."""


_DEFAULTS = {
    "automatic_dynamic_local_pgo": False,
    "automatic_dynamic_remote_pgo": False,
    "automatic_dynamic_shapes": True,
    "assume_static_by_default": True,
    "capture_dynamic_output_shape_ops": False,
    "capture_scalar_outputs": False,
    "disable": False,
    "recompile_limit": 8,
    "suppress_errors": False,
}


_PYTORCHS = ("aten", "prims", "prim")
"""Namespaces of operations."""


_NOT_TRACED = "flat_apply_capture"
"""What stands in a graph for a function marked ``torch._dynamo.nonstrict_trace``."""


def run(learner: Learner, case: dict) -> dict:
    """Call the function as it is, then compiled by a backend that runs its graphs and counts them.

    ``inputs``: the batches, after the first. ``broke``: what torch.compile says first where it cannot capture the function whole, or None.
    """
    function = partial(learner.squash, limit=case["limit"])
    if case["card"]:
        return _on_the_card(function, case["batches"])
    with gpulab.cuda.use("off", quiet=True):
        evidence = {
            "eager": [function(x) for x in case["batches"]],
            "inputs": [x.detach().clone() for x in case["batches"]],
            "gradients": [_gradient(function, *pair) for pair in zip(case["batches"], case["upstream"], strict=True)],
        }
        return evidence | _compiled(learner, case) if case["compiled"] else evidence


def _on_the_card(function: Callable, batches: list[torch.Tensor]) -> dict:
    """``eager``: results, as they come back from the card; ``inputs``: what they were made from, afterwards."""
    with idle_card():
        inputs = [x.cuda() for x in batches]
        torch.cuda.synchronize()
        with observe() as seen:
            results = [function(x) for x in inputs]
        afterwards = [x.cpu() for x in inputs]
        return {"eager": [on_host(result) for result in results], "inputs": afterwards, "seen": seen.to_dict()}


def _compiled(learner: Learner, case: dict) -> dict:
    graphs: list[list[str]] = []
    found: dict[str, Any] = {"graphs": graphs, "broke": None, "compiled": []}
    if not _is_pytorchs_own(torch.compile):
        return found | {"broke": "torch.compile is a function of the notebook's"}
    with dynamo_afresh() as dynamo:
        compiled = torch.compile(learner.squash, backend=partial(_run_as_it_is, graphs), fullgraph=True)
        try:
            found["compiled"] = [compiled(x, limit=case["limit"]) for x in case["batches"]]
        except dynamo.TorchDynamoException as error:
            found["broke"] = describe(error)["message"].partition("\n")[0]
    return found


def _is_pytorchs_own(function: object) -> bool:
    return isinstance(function, FunctionType) and not is_learners_file(function.__code__.co_filename)


@contextmanager
def dynamo_afresh() -> Iterator[ModuleType]:
    """Dynamo has compiled nothing before, knows PyTorch's own functions, and has PyTorch's own settings."""
    # A second or more to import, which only this exercise needs.
    from gpulab.compat import dynamo

    dynamo.reset()
    # It may have looked PyTorch's functions up while a virtual card stood in for some of them.
    dynamo.forget_names()
    # It times its guards with a cold cache, which costs as much as the tracing, and nobody reads the time.
    untimed = patch.object(*dynamo.PROFILE_GUARDS, lambda *_: 0.0)
    with dynamo.config.patch(**_DEFAULTS), untimed:
        yield dynamo
    dynamo.reset()


def _run_as_it_is(graphs: list[list[str]], graph: torch.fx.GraphModule, inputs: list) -> Callable:
    """A backend for torch.compile that needs no compiler; notes the operations of each graph."""
    calls = ("call_function", "call_method", "call_module")
    graphs.append([_named(node.target) for node in graph.graph.nodes if node.op in calls])
    if any(map(_size_depends_on_values, graph.graph.nodes)):
        graphs[-1].append(SIZE_FROM_VALUES)
    return graph.forward


def _size_depends_on_values(node: torch.fx.Node) -> bool:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    value = node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and bool(free_unbacked_symbols(value))


def _named(target: str | Callable) -> str:
    """``torch.where``, ``torch.Tensor.abs``, ``torch.ops.higher_order.cond``: what a node of a graph calls.

    ``notebook.x`` for what the compiler does not look into: an operation or a function of the
    notebook's own, whatever it is called.
    """
    if isinstance(target, str):
        return f"torch.Tensor.{target}"
    if _is_the_notebooks(target):
        return f"notebook.{target.__name__}"
    return f"{target.__module__}.{target.__name__}"


def _is_the_notebooks(target: Callable) -> bool:
    if isinstance(target, OpOverload):
        return target.namespace not in _PYTORCHS
    if isinstance(target, FunctionType):
        return is_learners_file(target.__code__.co_filename) or target.__name__ == _NOT_TRACED
    return False


def _gradient(function: Callable, x: torch.Tensor, upstream: torch.Tensor) -> torch.Tensor | None:
    x = x.clone().requires_grad_()
    function(x).backward(upstream)
    return x.grad
