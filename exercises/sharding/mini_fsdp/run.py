"""E15.2 mini_fsdp: models on the ranks' cards, whose units say when they run, and what the card holds then."""

import gc

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner
from exercises.sharding.mini_fsdp.shared import Tell, built
from gpulab.cuda.device.state import device_on

BOUNDARY = -1


def run(learner: Learner, case: dict) -> dict:
    """Shard a model in every rank and go through its own passes, or have models refused."""

    def in_rank(rank: int, world: int) -> list | dict:
        return _refused(learner) if case["refused"] else _trained(learner, rank, case)

    return in_ranks(in_rank, case["world"], card="virtual", backend="nccl")


def _trained(learner: Learner, rank: int, case: dict) -> dict:
    """What the rank's parts are at the beginning and after each pass, their gradients, and what came out."""
    own, tell = own_inputs(), _teller(rank)
    model = built(own["units"], tell).cuda()
    parts = _parts(learner.mini_fsdp(model))
    optimizer = torch.optim.SGD(parts, lr=case["lr"])
    found: dict[str, list] = {"parts": [_now(parts)], "grads": [], "outs": []}
    _boundary(tell)
    for step in own["passes"]:
        out = _pass(model, step, case["with_gradient"])
        _boundary(tell)
        found["outs"].append(out)
        found["grads"].append(_now(_gradients(parts)))
        if step["then"] == "to none":
            optimizer.step()
        if step["then"] != "keep":
            optimizer.zero_grad()
        found["parts"].append(_now(parts))
    return found


def _pass(model: nn.Sequential, step: dict, with_gradient: bool) -> torch.Tensor:
    """Through the model, and back where the step says so. What comes out, on the host."""
    with torch.set_grad_enabled(step["do"] != "no_grad"):
        out = model(step["x"].cuda().requires_grad_(with_gradient))
        if step["do"] == "train":
            out.square().sum().backward()
    return out.detach().cpu()


def _boundary(tell: Tell) -> None:
    gc.collect(1)
    tell(BOUNDARY)


def _parts(value: object) -> list[nn.Parameter]:
    if not isinstance(value, list) or not all(_is_plain_parameter(part) for part in value):
        raise TypeError("mini_fsdp returned something else than a list of nn.Parameter")
    if not all(part.is_cuda and part.is_leaf and part.requires_grad for part in value):
        raise TypeError("mini_fsdp returned a parameter that is not on the card or takes no gradient")
    return value


def _is_plain_parameter(part: object) -> bool:
    """Not of a class of the learner's own, whose gradient might come to be when somebody looks."""
    return isinstance(part, nn.Parameter) and type(part) is type(nn.Parameter(torch.empty(0).cuda()))


def _gradients(parts: list[nn.Parameter]) -> list:
    """Raises TypeError where a part, or its gradient, has become something that is more than a tensor on the card."""
    grads = [part.grad for part in parts] if all(map(_is_plain_parameter, parts)) else [parts]
    if not all(grad is None or type(grad) is type(torch.empty(0).cuda()) for grad in grads):
        raise TypeError("a part or its gradient is a tensor of a class of its own: after the backward pass it is there")
    return grads


def _now(tensors: list) -> list:
    return [None if tensor is None else tensor.detach().cpu().clone() for tensor in tensors]


def _teller(rank: int) -> Tell:
    """Lets a number, and how many bytes the rank's card holds, cross in a group of this rank alone, without waiting."""
    alone = dist.new_group([rank], backend="gloo", use_local_synchronization=True)
    reduce, allocator = dist.reduce, device_on().machine.allocator

    def tell(number: int) -> None:
        reduce(torch.tensor([number, allocator.allocated]), rank, group=alone, async_op=True)

    return tell


def _refused(learner: Learner) -> list[dict]:
    """Of each model what came of the call: of what is returned, that it is a list will do."""
    answers = []
    for given in own_inputs()["models"]:
        model = built(given["units"], lambda number: None).cuda()
        _spoil(model, **given["fault"])
        answers.append(outcome(lambda model=model: [] if isinstance(learner.mini_fsdp(model), list) else None))
    return answers


def _spoil(model: nn.Sequential, kind: str, unit: int, number: int) -> None:
    """Parameter ``number`` of a unit becomes one that mini_fsdp is to refuse; ``none``, and two names for one: nothing does."""
    at, inner = _places(model[unit])[number]
    if kind == "twice":
        at.again = getattr(at, inner)
    elif kind == "tied":
        other, name = _places(model[unit - 1])[number]
        setattr(at, inner, getattr(other, name))
    elif kind == "frozen":
        getattr(at, inner).requires_grad_(False)
    elif kind != "none":
        setattr(at, inner, nn.Parameter(getattr(at, inner).detach().to(getattr(torch, kind))))


def _places(unit: nn.Module) -> list[tuple[nn.Module, str]]:
    """The module and the name of each parameter, in the order of ``unit.parameters()``."""
    return [(module, name) for module in unit.modules() for name in module._parameters]
