"""Chapter "Kernels from Python": what the learner's functions launched, moved and compiled.

Kernels run on a virtual card, whose interpreter counts what they load and store.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import torch

import gpulab.cuda
from autograder.proctor import Learner, describe
from autograder.scenarios.card import idle_card
from autograder.scenarios.kernels_ran import kernels_ran, tiles, work_of
from autograder.scenarios.outcome import outcome
from gpulab import observe
from gpulab.observe.lines import is_learners_file

PRELOAD = ("gpulab.kernels.tiles.facade", "gpulab.kernels.fusion.compiled")
"""What these scenarios and their notebooks import on first use."""

SIZE_FROM_VALUES = "torch.size_from_values"
"""Stands among a graph's operations when a tensor in it is as large as values decide."""

_STEPS: dict[str, Callable] = {
    "bias": lambda v, bias, gate: v + bias,
    "gate": lambda v, bias, gate: v * gate,
    "double": lambda v, bias, gate: v * 2.0,
    "relu": lambda v, bias, gate: torch.relu(v),
    "sigmoid": lambda v, bias, gate: torch.sigmoid(v),
    "in place": lambda v, bias, gate: v.add_(1.0),
    "view": lambda v, bias, gate: v.view(-1).unsqueeze(0).view(v.shape),
    "transposed twice": lambda v, bias, gate: v.t().t(),
    "row sum": lambda v, bias, gate: v.sum(1),
}

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


def fuse_budget(learner: Learner, case: dict) -> dict:
    """Have a chain of operations counted; ``calls``: how often it was called."""
    calls = 0

    def chain(x: torch.Tensor, bias: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        for step in case["steps"]:
            x = _STEPS[step](x, bias, gate)
        return x

    with idle_card():
        inputs = [case[name].cuda() for name in ("x", "bias", "gate")]
        torch.cuda.synchronize()
        with observe() as seen:
            result = learner.fuse_budget(chain, *inputs)
    return {"result": result, "calls": calls, "seen": seen.to_dict()}


def fused_gate(learner: Learner, case: dict) -> dict:
    """Gate one batch with a kernel of the learner's."""
    return _launched(learner.fused_gate, [case["x"], case["gate"], case["bias"]])


def squash(learner: Learner, case: dict) -> dict:
    """Call the function as it is, then compiled by a backend that runs its graphs and counts them.

    ``broke``: what torch.compile says where it cannot capture the function whole, or None.
    """
    function = partial(learner.squash, limit=case["limit"])
    with gpulab.cuda.use("off", quiet=True):
        evidence = {
            "eager": [function(x) for x in case["batches"]],
            "gradients": [_gradient(function, *pair) for pair in zip(case["batches"], case["upstream"], strict=True)],
        }
        return evidence | _compiled(learner, case) if case["compiled"] else evidence


def _compiled(learner: Learner, case: dict) -> dict:
    graphs: list[list[str]] = []
    found: dict[str, Any] = {"graphs": graphs, "broke": None, "compiled": []}
    if not _is_pytorchs_own(torch.compile):
        return found | {"broke": "torch.compile is a function of the notebook's"}
    with dynamo_afresh():
        compiled = torch.compile(learner.squash, backend=partial(_run_as_it_is, graphs), fullgraph=True)
        try:
            found["compiled"] = [compiled(x, limit=case["limit"]) for x in case["batches"]]
        except torch._dynamo.exc.TorchDynamoException as error:
            found["broke"] = describe(error)["message"]
    return found


def _is_pytorchs_own(function: object) -> bool:
    return isinstance(function, FunctionType) and not is_learners_file(function.__code__.co_filename)


@contextmanager
def dynamo_afresh() -> Iterator[None]:
    """Dynamo has compiled nothing before, knows PyTorch's own functions, and has PyTorch's own settings."""
    # A second or more to import, which only this exercise needs.
    import torch._dynamo

    torch._dynamo.reset()
    # It may have looked PyTorch's functions up while a virtual card stood in for some of them.
    torch._dynamo.trace_rules.clear_lru_cache()
    with torch._dynamo.config.patch(**_DEFAULTS):
        yield
    torch._dynamo.reset()


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
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace not in _PYTORCHS
    if isinstance(target, FunctionType):
        return is_learners_file(target.__code__.co_filename) or target.__name__ == _NOT_TRACED
    return False


def _gradient(function: Callable, x: torch.Tensor, upstream: torch.Tensor) -> torch.Tensor | None:
    x = x.clone().requires_grad_()
    function(x).backward(upstream)
    return x.grad


def row_softmax(learner: Learner, case: dict) -> dict:
    """The softmax of one matrix, which may be a part of a wider one."""
    if case["refused"]:
        with idle_card():
            return outcome(lambda: _on_host(learner.row_softmax(case["x"].cuda())))
    return _launched(learner.row_softmax, [case["x"]], columns=case["columns"])


def linear_silu(learner: Learner, case: dict) -> dict:
    """One layer, its bias and its activation."""
    inputs = [case["x"], case["weight"], case["bias"]]
    if case["refused"]:
        with idle_card():
            return outcome(lambda: _on_host(learner.linear_silu(*(tensor.cuda() for tensor in inputs))))
    return _launched(learner.linear_silu, inputs)


def _launched(function: Callable, inputs: list[torch.Tensor], columns: int | None = None) -> dict:
    """Call ``function`` on the card, watched.

    ``columns``: the first input is that many of a wider matrix's. ``inputs`` in the evidence:
    what they hold afterwards.
    """
    with idle_card():
        owners = [tensor.cuda() for tensor in inputs]
        given = [owners[0][:, :columns], *owners[1:]]
        torch.cuda.synchronize()
        with kernels_ran(*given, interpreter=tiles) as ran, observe() as seen:
            result = function(*given)
        work = work_of(result, ran, seen)
        torch.cuda.synchronize()
        return {
            "result": _on_host(result),
            "inputs": [tensor.cpu() for tensor in owners],
            **work,
        }


def _on_host(value: Any) -> Any:
    """What the tensor holds; a tensor that is not on the card crosses as what it is not."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.cpu() if value.is_cuda else "a tensor that is not on the card"
