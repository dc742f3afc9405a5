"""E14.1 mini_ddp: what runs beside the learner's function."""

import functools
import itertools
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Make the models data parallel in every rank, and train its own steps; markers in the log say when."""

    def in_rank(rank: int, world: int) -> dict:
        own, mark = own_inputs(), _marker(rank)
        models = [_Stack(**spec) for spec in own["models"]]
        held = [[*model.parameters(), *model.buffers()] for model in models]
        lies = [[tensor.detach() for tensor in of_model] for of_model in held]
        parameters = [parameter for model in models for parameter in model.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        finishes = [_function(learner.mini_ddp(*asked)) for asked in zip(models, case["bucket_bytes"], strict=True)]
        starts, written, grads = _now(held), _now(lies), []
        mark(-1)
        for step in own["steps"]:
            _backward(models, step, mark)
            grads.append([])
            for model, finish in zip(models, finishes, strict=True):
                finish()
                grads[-1] += [_gradient(parameter) for parameter in model.parameters()]
            mark(-1)
            optimizer.zero_grad(set_to_none=step["to_none"])
        return {"starts": starts, "written": written, "grads": grads}

    return in_ranks(in_rank, case["world"])


def _gradient(parameter: nn.Parameter) -> object:
    """As it is now; of a tensor's subclass its name, for it might come to its values later."""
    grad = parameter.grad
    return grad.clone() if type(grad) is torch.Tensor else None if grad is None else type(grad).__name__


def _now(tensors: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [[tensor.detach().clone() for tensor in of_model] for of_model in tensors]


def _function(value: object) -> Callable[[], object]:
    if not callable(value):
        raise TypeError(f"mini_ddp returned {type(value).__name__}; expected a function")
    return value


def _marker(rank: int) -> Callable[[int], object]:
    """A function that reduces a number in a group of this rank alone, without waiting: the broker logs it in order."""
    alone = dist.new_group([rank], use_local_synchronization=True)
    return lambda number: dist.reduce(torch.tensor([number]), rank, group=alone, async_op=True)


class _Layer(nn.Module):
    """A layer with three parameters, in their dtype, and a buffer."""

    def __init__(self, weights: list[torch.Tensor], frozen: list[bool], scale: torch.Tensor, persistent: bool) -> None:
        super().__init__()
        self.a, self.b, self.g = (nn.Parameter(w, not f) for w, f in zip(weights, frozen, strict=True))
        self.register_buffer("scale", scale, persistent)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        h = h.to(self.a.dtype) * self.scale
        return h + self.g * (torch.tanh(h @ self.a.t()) @ self.b.t())


class _Stack(nn.Module):
    """Layers, of which each pass names those that it goes through, in order, and buffers that none of them uses."""

    def __init__(self, layers: list[dict], count: torch.Tensor, on: torch.Tensor) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(**spec) for spec in layers)
        self.register_buffer("count", count)
        self.register_buffer("on", on)

    def forward(self, h: torch.Tensor, path: list[int], passed: Callable) -> torch.Tensor:
        for number in path:
            h = self.layers[number](passed(h))
        return h


class _Passed(torch.autograd.Function):
    """The identity; its backward calls ``on_backward`` first."""

    @staticmethod
    def forward(ctx, h, on_backward):
        ctx.on_backward = on_backward
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        ctx.on_backward()
        return grad, None


def _backward(models: list[_Stack], step: dict, mark: Callable[[int], object]) -> None:
    """Forward and backward through all models. Backward marks each place before a layer, and that after all, last first.

    ``gates``: (place, ``"isend"`` or ``"recv"``, peer), a message of this rank at that place.
    """
    places = itertools.count()

    def on_backward(place: int) -> None:
        mark(place)
        for at, operation, peer in step["gates"]:
            if at == place:
                getattr(dist, operation)(torch.zeros(1), peer)

    def passed(h: torch.Tensor) -> torch.Tensor:
        return _Passed.apply(h, functools.partial(on_backward, next(places)))

    h = step["x"].requires_grad_()
    for model, path in zip(models, step["paths"], strict=True):
        h = model(h, path, passed)
    passed(h).square().sum().backward()
