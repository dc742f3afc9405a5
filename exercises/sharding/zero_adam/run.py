"""E15.1 zero_adam: what runs beside the learner's function."""

import gc
from collections.abc import Callable

import torch
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner
from gpulab.memory import track
from gpulab.memory.tracker import Held


def run(learner: Learner, case: dict) -> dict:
    """Make optimizers in every rank, set its own gradients and step; what the ranks hold is measured beside it."""

    def in_rank(rank: int, world: int) -> dict:
        own = own_inputs()
        answers = [outcome(lambda spec=spec: _made(learner, spec)) for spec in own["refused"]]
        return {"answers": answers, **_steps(learner, own["optimizers"], own["steps"])}

    return in_ranks(in_rank, case["world"])


def _steps(learner: Learner, specs: list[dict], steps: list[dict]) -> dict:
    """Values, gradients and held bytes after each step.

    A step says ``of`` which optimizer it is, its ``grads``, what is ``written`` to the parameters before, and whether then
    those that require gradients and those that do not are ``exchanged``.
    """
    parameters = [_parameters(spec) for spec in specs]
    lies = [[parameter.detach() for parameter in of_one] for of_one in parameters]
    given = [tensor for step in steps for tensor in (*step["grads"], *step["written"]) if tensor is not None]
    found, kept, ours = [], [], 0
    with track(nn.ParameterList(sum(parameters, [])), cache=(given, lies)) as held:
        before = held.now.total
        made = [_made(learner, spec, own) for spec, own in zip(specs, parameters, strict=True)]
        kept.append(_held_since(held, before))
        for step in steps:
            trained = parameters[step["of"]]
            _set(trained, step)
            made[step["of"]]()
            written = _copies(lies)  # before anybody looks at the parameters, which might wait for that
            ours += _nbytes(written)
            kept.append(_held_since(held, before + ours))
            grads = [parameter.grad for parameter in trained]
            same = [grad is own for grad, own in zip(grads, step["grads"], strict=True)]
            found.append({"values": _copies(parameters), "lies": written, "grads": grads, "same": same})
            ours += _nbytes(found[-1]["values"])
    return {"steps": found, "kept": kept}


def _held_since(held: Held, before: int) -> int:
    gc.collect(1)
    return held.now.total - before


def _set(parameters: list[nn.Parameter], step: dict) -> None:
    """Write to the parameters what someone else writes, and give them the gradients of a step."""
    for parameter, written, grad in zip(parameters, step["written"], step["grads"], strict=True):
        if written is not None:
            parameter.detach().copy_(written)
        if step["exchanged"] and parameter.is_floating_point():
            parameter.requires_grad_(not parameter.requires_grad)
        parameter.grad = grad


def _copies(tensors: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [[tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in of_one] for of_one in tensors]


def _nbytes(tensors: list[list[torch.Tensor]]) -> int:
    return sum(tensor.nbytes for of_one in tensors for tensor in of_one)


def _parameters(spec: dict) -> list[nn.Parameter]:
    return [nn.Parameter(value, not frozen) for value, frozen in zip(spec["values"], spec["frozen"], strict=True)]


def _made(learner: Learner, spec: dict, parameters: list[nn.Parameter] | None = None) -> Callable[[], object]:
    """The learner's step. The parameters come once, by a generator, or in a list that is emptied after the call."""
    options, handed = dict(spec["options"]), parameters[:] if parameters is not None else _parameters(spec)
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    step = learner.zero_adam((p for p in handed) if spec["once"] else handed, **options)
    handed.clear()
    if not callable(step):
        raise TypeError(f"zero_adam returned {type(step).__name__}; expected a function")
    return step
