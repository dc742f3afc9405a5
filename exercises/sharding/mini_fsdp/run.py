"""E15.2 mini_fsdp: models on the ranks' cards, whose units say when they run, and what the card holds then."""

import gc
from collections.abc import Callable

import torch
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, marker, own_inputs
from autograder.runner.scenario_runner import Learner
from exercises.sharding.mini_fsdp.shared import built
from gpulab.cuda.device.state import device_on


def run(learner: Learner, case: dict) -> dict:
    """Shard a model in every rank and go through its own passes, or have models refused."""

    in_rank = lambda rank, world: _refused(learner) if case["refused"] else _trained(learner, rank, case)
    return in_ranks(in_rank, case["world"], card="virtual", backend="nccl")


def _trained(learner: Learner, rank: int, case: dict) -> dict:
    """What the rank's parts are at the beginning and after each pass, their gradients, and what came out."""
    own, allocator = own_inputs(), device_on().machine.allocator
    tell = marker(rank, lambda: allocator.allocated)
    model = built(own["units"], tell).cuda()
    parts = _parts(learner.mini_fsdp(model))
    optimizer = torch.optim.SGD(parts, lr=case["lr"])
    found: dict[str, list] = {"parts": [_now(parts)], "grads": [], "outs": []}
    _boundary(tell)
    for step in own["passes"]:
        found["outs"].append(_pass(model, step, case["with_gradient"]))
        found["grads"].append(_now([part.grad for part in _plain(parts)]))
        if step["then"] == "step":
            optimizer.step()
        if step["then"] != "keep":
            optimizer.zero_grad()
        found["parts"].append(_now(parts))
        _boundary(tell)
    return found


def _boundary(tell: Callable[[int], None]) -> None:
    gc.collect(1)
    tell(-1)


def _pass(model: nn.Sequential, step: dict, with_gradient: bool) -> torch.Tensor:
    """Through the model, and back where the step says so. What comes out, on the host."""
    with torch.set_grad_enabled(step["do"] != "no_grad"):
        out = model(step["x"].cuda().requires_grad_(with_gradient))
        if step["do"] == "train":
            out.square().sum().backward()
    return out.detach().cpu()


def _parts(value: object) -> list[nn.Parameter]:
    if not isinstance(value, list) or not all(isinstance(part, nn.Parameter) for part in value):
        raise TypeError("mini_fsdp returned something else than a list of nn.Parameter")
    if not all(part.is_cuda and part.is_leaf and part.requires_grad for part in value):
        raise TypeError("mini_fsdp returned a parameter that is not on the card or takes no gradient")
    return value


def _plain(tensors: list) -> list:
    """Raises TypeError for one of a class of the learner's own, whose values or gradient might come to be when somebody looks."""
    one = torch.empty(0).cuda()
    if not {type(tensor) for tensor in tensors} <= {type(one), type(nn.Parameter(one)), type(None)}:
        raise TypeError("a part or its gradient is a tensor of a class of its own: after the backward pass it is there")
    return tensors


def _now(tensors: list) -> list:
    return [None if tensor is None else tensor.detach().cpu().clone() for tensor in _plain(tensors)]


def _refused(learner: Learner) -> list[dict]:
    """Of each model what came of the call."""
    answers = []
    for given in own_inputs()["models"]:
        model = built(given["units"]).cuda()
        _spoil(model, **given["fault"])
        answers.append(outcome(lambda model=model: learner.mini_fsdp(model) is None))
    return answers


def _spoil(model: nn.Sequential, kind: str, unit: int, number: int) -> None:
    """Parameter ``number`` of a unit becomes one that mini_fsdp is to refuse; ``none``, and two names for one: nothing does."""
    parameter = list(model[unit].parameters())[number]
    if kind == "twice":
        model[unit].again = model[unit].g
    elif kind == "tied":
        model[unit].g = model[unit - 1].g
    elif kind == "frozen":
        parameter.requires_grad_(False)
    elif kind != "none":
        parameter.data = parameter.data.to(getattr(torch, kind))
