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
        return {
            "answers": [_answer(learner, spec) for spec in own["refused"]],
            **_steps(learner, own["optimizers"], own["steps"]),
        }

    return in_ranks(in_rank, case["world"])


def _answer(learner: Learner, spec: dict) -> dict:
    """What the call raised; of a step that it returned there is nothing to say."""
    made = outcome(lambda: _made(learner, spec, _parameters(spec)))
    return {name: said for name, said in made.items() if name == "error"}


def _steps(learner: Learner, specs: list[dict], steps: list[dict]) -> dict:
    """Values, gradients and held bytes after each step, which says ``of`` which optimizer it is, and its ``grads``."""
    parameters = [_parameters(spec) for spec in specs]
    lies = [[parameter.detach() for parameter in of_one] for of_one in parameters]
    found, kept, ours = [], [], 0
    if not steps:
        return {"steps": found, "kept": kept}
    grads = [grad for step in steps for grad in step["grads"] if grad is not None]
    with track(nn.ParameterList(sum(parameters, [])), cache=(grads, lies)) as held:
        before = held.now.total
        made = [_made(learner, spec, own) for spec, own in zip(specs, parameters, strict=True)]
        for step in steps:
            trained = parameters[step["of"]]
            for parameter, grad in zip(trained, step["grads"], strict=True):
                parameter.grad = grad
            made[step["of"]]()
            written = _copies(lies[step["of"]])  # before anybody looks at the parameters, which might wait for that
            kept.append(_held_since(held, before + ours + _nbytes(written)))
            after = [parameter.grad for parameter in trained]
            same = [grad is own for grad, own in zip(after, step["grads"], strict=True)]
            found.append({"values": _copies(trained), "lies": written, "grads": after, "same": same})
            replaced = [grad for grad, own in zip(after, same, strict=True) if grad is not None and not own]
            ours += _nbytes(written) + _nbytes(found[-1]["values"]) + _nbytes(replaced)
    return {"steps": found, "kept": kept}


def _held_since(held: Held, before: int) -> int:
    gc.collect(1)
    return held.now.total - before


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors]


def _nbytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _parameters(spec: dict) -> list[nn.Parameter]:
    return [nn.Parameter(value, not frozen) for value, frozen in zip(spec["values"], spec["frozen"], strict=True)]


def _made(learner: Learner, spec: dict, parameters: list[nn.Parameter]) -> Callable[[], object]:
    """The learner's step. The parameters come in a list, or once, as a model gives them."""
    options = {name: tuple(value) if name == "betas" else value for name, value in spec["options"].items()}
    step = learner.zero_adam((p for p in parameters) if spec["once"] else parameters, **options)
    if not callable(step):
        raise TypeError(f"zero_adam returned {type(step).__name__}; expected a function")
    return step
