"""Chapter "Kernels from Python": what the learner's functions launched, moved and compiled.

Kernels run on a virtual card, whose interpreter counts what they load and store.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any
from unittest.mock import patch

import torch

import gpulab.cuda
from autograder.scenario_runner import Learner, describe
from autograder.scenarios.card import idle_card
from autograder.scenarios.kernels_large import launched_large
from autograder.scenarios.kernels_ran import kernels_ran, on_host, same_memory, tiles, work_of
from autograder.scenarios.observed import observe
from gpulab.observe.lines import is_learners_file

PRELOAD = ("gpulab.kernels.tiles.facade", "gpulab.kernels.fusion.compiled")
"""What these scenarios and their notebooks import on first use."""

SIZE_FROM_VALUES = "torch.size_from_values"
"""Stands among a graph's operations when a tensor in it is as large as values decide."""


def _doubled(v: torch.Tensor, bias: torch.Tensor | None = None, gate: torch.Tensor | None = None) -> torch.Tensor:
    """By a Triton kernel, in a tensor of its own."""
    from gpulab.kernels import tl, triton

    @triton.jit
    def doubling(v_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, 2 * tl.load(v_ptr + at, mask=at < n), mask=at < n)

    out = torch.empty_like(v)
    doubling[(triton.cdiv(v.numel(), 1024),)](v, out, v.numel(), BLOCK=1024)
    return out


_STEPS: dict[str, Callable] = {
    "bias": lambda v, bias=None, gate=None: v + bias,
    "gate": lambda v, bias=None, gate=None: v * gate,
    "double": lambda v, bias=None, gate=None: v * 2.0,
    "relu": lambda v, bias=None, gate=None: torch.relu(v),
    "sigmoid": lambda v, bias=None, gate=None: torch.sigmoid(v),
    "in place": lambda v, bias=None, gate=None: v.add_(1.0),
    "choice": lambda v, bias=None, gate=None: torch.where(v > 0.5, v, 0.25),
    "above": lambda v, bias=None, gate=None: v > 0.5,
    "doubling": _doubled,
    "view": lambda v, bias=None, gate=None: v.view(-1).unsqueeze(0).view(v.shape),
    "transposed twice": lambda v, bias=None, gate=None: v.t().t(),
    "every other": lambda v, bias=None, gate=None: v[:, ::2],
    "row sum": lambda v, bias=None, gate=None: v.sum(1),
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
    """Have a chain of operations counted, twice.

    ``results``: of each time. ``calls``: how often the chain was called each time, ``strangers``: with
    how many tensors that are none of the inputs.
    """
    given: list[torch.Tensor] = []
    names = [name for name in ("x", "bias", "gate") if name in case]
    chain = _chain(names, [_STEPS[step] for step in case["steps"]], given)
    with idle_card():
        inputs = _inputs(case, names)
        torch.cuda.synchronize()
        with observe() as seen:
            results = [learner.fuse_budget(chain, *inputs)]
        calls = [len(given) / len(inputs)]
        results.append(learner.fuse_budget(chain, *inputs))
        calls.append(len(given) / len(inputs) - calls[0])
    strangers = sum(all(tensor is not one for one in inputs) for tensor in given)
    return {"results": results, "calls": calls, "strangers": strangers, "seen": seen.to_dict()}


def _inputs(case: dict, names: list[str]) -> list[torch.Tensor]:
    """On the card: x a part of a wider matrix, and a gate that is ``None`` the part of it behind x."""
    columns, owners = case["columns"], {name: case[name].cuda() for name in names if case[name] is not None}
    parts = {"x": _part(owners["x"], columns), "gate": _part(owners["x"], columns, columns)}
    return [parts["x"] if name == "x" else owners.get(name, parts["gate"]) for name in names]


def _chain(names: list[str], steps: list[Callable], given: list[torch.Tensor]) -> Callable:
    """A function of tensors that does ``steps``, and notes what it was given. It holds no case."""

    def chain(*inputs: torch.Tensor) -> torch.Tensor:
        given.extend(inputs)
        others = dict(zip(names, inputs, strict=True))
        x = others.pop("x")
        for step in steps:
            x = step(x, **others)
        return x

    return chain


def _part(owner: torch.Tensor, columns: int | None, first: int = 0) -> torch.Tensor:
    """``owner``, or the part of it that is ``columns`` wide."""
    return owner[..., first : None if columns is None else first + columns]


def fused_gate(learner: Learner, case: dict) -> dict:
    """Gate one batch with a kernel of the learner's."""
    if "shapes" in case:
        return launched_large(learner.fused_gate, case["shapes"], case["dtype"])
    return _launched(learner.fused_gate, [case["x"], case["gate"], case["bias"]], again=case["again"])


def squash(learner: Learner, case: dict) -> dict:
    """Call the function as it is, then compiled by a backend that runs its graphs and counts them.

    ``inputs``: the batches, after the first. ``broke``: what torch.compile says where it cannot capture the function whole, or None.
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
    # It times its guards with a cold cache, which costs as much as the tracing, and nobody reads the time.
    untimed = patch.object(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
    with torch._dynamo.config.patch(**_DEFAULTS), untimed:
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
    if "shapes" in case:
        return launched_large(learner.row_softmax, case["shapes"], case["dtype"])
    part = {"columns": case["columns"], "first": case["first"]}
    return _launched(learner.row_softmax, [case["x"]], again=case["again"], **part)


def linear_silu(learner: Learner, case: dict) -> dict:
    """One layer, its bias and its activation."""
    if "shapes" in case:
        return launched_large(learner.linear_silu, case["shapes"], case["dtype"])
    return _launched(learner.linear_silu, [case["x"], case["weight"], case["bias"]], again=case["again"])


def _launched(
    function: Callable, inputs: list[torch.Tensor], again: bool = False, columns: int | None = None, first: int = 0
) -> dict:
    """Call ``function`` on the card, watched; once more where ``again`` is asked for.

    ``columns``: the first input is that many of a wider matrix's, from ``first`` on. ``inputs`` in
    the evidence: what they hold afterwards. ``is_an_input``: the result lies where one of them does;
    ``handed_out_twice``: a second result lies where the first does.
    """
    with idle_card():
        owners = [tensor.cuda() for tensor in inputs]
        given = [_part(owners[0], columns, first), *owners[1:]]
        torch.cuda.synchronize()
        with kernels_ran(*given, interpreter=tiles) as ran, observe() as seen:
            result = function(*given)
        work = work_of(result, ran, seen)
        torch.cuda.synchronize()
        return {
            "result": on_host(result),
            "inputs": [tensor.cpu() for tensor in owners],
            "contiguous": isinstance(result, torch.Tensor) and result.is_contiguous(),
            "is_an_input": any(same_memory(result, tensor) for tensor in given),
            "handed_out_twice": again and same_memory(result, function(*given)),
            **work,
        }
