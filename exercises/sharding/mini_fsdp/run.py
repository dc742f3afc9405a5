"""E15.2 mini_fsdp: models on the ranks' cards, whose units say when they run, and what the card holds then."""

import gc
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner
from gpulab.cuda.device.state import device_on

BOUNDARY = -1
Tell = Callable[[int], object]


def run(learner: Learner, case: dict) -> dict:
    """Shard models in every rank and go through its own passes, or have models refused."""

    def in_rank(rank: int, world: int) -> list | dict:
        return _refused(learner, rank) if case["refused"] else _trained(learner, rank, case["lr"])

    return in_ranks(in_rank, case["world"], card="virtual", backend="nccl")


def _trained(learner: Learner, rank: int, lr: float) -> dict:
    """What the rank's parts are at the beginning and after each pass, their gradients, and what came out."""
    own, tell, models, parts, numbers = own_inputs(), _teller(rank), [], [], 0
    for units in own["models"]:
        models.append(_sequential(units, tell, numbers))
        numbers += len(units)
        parts += _parts(learner.mini_fsdp(models[-1]))
    optimizer = torch.optim.SGD(parts, lr=lr)
    found: dict[str, list] = {"parts": [_now(parts)], "grads": [], "outs": [], "inputs": []}
    _boundary(tell)
    for step in own["passes"]:
        out, grad_of_input = _pass(models, step)
        _boundary(tell)
        found["outs"].append(out)
        found["inputs"].append(grad_of_input)
        found["grads"].append(_now(_gradients(parts)))
        if step.get("moved"):
            for part in parts:
                part.data = part.detach().clone()
        if step["then"] != "keep":
            optimizer.step()
            optimizer.zero_grad(set_to_none=step["then"] == "to none")
        found["parts"].append(_now(parts))
    return found


def _pass(models: list[nn.Sequential], step: dict) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Through all models, one behind the other, and back where the step says so.

    What comes out, and the gradient of what goes in, if any; on the host.
    """
    x = out = step["x"].cuda().requires_grad_(step["input_requires_grad"])
    with torch.set_grad_enabled(step["do"] != "no_grad"):
        for model in models:
            out = model.train(step["training"])(out)
        if step["do"] == "train":
            out.square().sum().backward()
    return out.detach().cpu(), None if x.grad is None else x.grad.cpu()


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
    return isinstance(part, nn.Parameter) and type(part) is type(_parameter(torch.empty(0)))


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


def _refused(learner: Learner, rank: int) -> list[dict]:
    """Of each model what came of the call, and where that raised what the model computes after it; a boundary before each."""
    answers, tell = [], _teller(rank)
    for given in own_inputs()["models"]:
        tell(BOUNDARY)
        model, x = _sequential(given["units"], lambda number: None), given["x"].cuda()
        _spoil(model, **given["fault"])
        answer = outcome(lambda model=model: _emptied(learner.mini_fsdp(model)))
        after = outcome(lambda model=model, x=x: model(x).detach().cpu()) if "error" in answer else {}
        answers.append({**answer, "after": after})
    return answers


def _emptied(value: object) -> list | None:
    """What is returned by mistake need not cross: that it is a list will do."""
    return [] if isinstance(value, list) else None


def _spoil(model: nn.Sequential, kind: str, unit: int, number: int) -> None:
    """Parameter ``number`` of a unit becomes one that mini_fsdp is to refuse, or the unit the one before it; ``none``: nothing does."""
    if kind == "none":
        return
    if kind == "twice":
        model[unit] = model[unit - 1]
        return
    at, inner = _places(model[unit])[number]
    if kind == "tied":
        other, name = _places(model[unit - 1])[number]
        setattr(at, inner, getattr(other, name))
    elif kind == "frozen":
        getattr(at, inner).requires_grad_(False)
    else:
        setattr(at, inner, nn.Parameter(getattr(at, inner).detach().to(getattr(torch, kind))))


def _places(unit: nn.Module) -> list[tuple[nn.Module, str]]:
    """The module and the name of each parameter, in the order of ``unit.parameters()``."""
    return [(module, name) for module in unit.modules() for name in module._parameters]


# ---- units


class _Unit(nn.Module):
    """Tells ``2 * number`` when its forward begins, and ``2 * number + 1`` when its backward does."""

    def __init__(self, tell: Tell, number: int) -> None:
        super().__init__()
        self._tell, self._number = tell, number

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        self._tell(2 * self._number)
        return _Passed.apply(self.compute(h), self._tell, 2 * self._number + 1)


class _Passed(torch.autograd.Function):
    """The identity; its backward tells a number."""

    @staticmethod
    def forward(ctx, h, tell, number):
        ctx.tell, ctx.number = tell, number
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        ctx.tell(ctx.number)
        return grad, None, None


class Embed(_Unit):
    """Rows of a table."""

    def __init__(self, table: torch.Tensor, **where) -> None:
        super().__init__(**where)
        self.table = _parameter(table)

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(h, self.table)


class Block(_Unit):
    """A residual layer: its own parameters stand before those of the module inside, ``down`` lies by columns."""

    def __init__(self, g, down, weight, bias, scale, **where) -> None:
        super().__init__(**where)
        self.up = nn.Sequential(_Linear(weight, bias), nn.Tanh())
        self.g, self.down = _parameter(g), _parameter(down)
        self.register_buffer("scale", scale.cuda())

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.g * (self.up(h * self.scale) @ self.down)


class _Linear(nn.Module):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.weight, self.bias = _parameter(weight), _parameter(bias)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(h, self.weight, self.bias)


class Linear(_Unit):
    """A layer, whose parameters belong to a module inside."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, **where) -> None:
        super().__init__(**where)
        self.inside = _Linear(weight, bias)

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        return self.inside(h)


class Scale(_Unit):
    """One number for all elements: fewer parameters than there are ranks."""

    def __init__(self, by: torch.Tensor, **where) -> None:
        super().__init__(**where)
        self.by = _parameter(by)

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        return h * self.by


class Bend(_Unit):
    """No parameters."""

    def compute(self, h: torch.Tensor) -> torch.Tensor:
        return torch.tanh(h)


_KINDS = {"embed": Embed, "block": Block, "linear": Linear, "scale": Scale, "bend": Bend}


def _parameter(values: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(values.cuda())


def _sequential(units: list[dict], tell: Tell, first: int = 0) -> nn.Sequential:
    """``first``: the number of its first unit."""
    made = [_KINDS[unit["kind"]](**unit["tensors"], tell=tell, number=first + i) for i, unit in enumerate(units)]
    return nn.Sequential(*made)
