"""E7.1 fuse_budget: what runs beside the learner's function."""

from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.kernels.run import part_of


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


def run(learner: Learner, case: dict) -> dict:
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
    parts = {"x": part_of(owners["x"], columns), "gate": part_of(owners["x"], columns, columns)}
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
