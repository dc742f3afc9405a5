"""Chapter "Data parallelism in depth": what the learner's functions did."""

import functools
import itertools
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from autograder.proctor import Learner
from autograder.scenarios.ranks import in_ranks, own_inputs
from autograder.scenarios.told import hand_over, observe, place

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def mini_ddp(learner: Learner, case: dict) -> dict:
    """Make the models data parallel in every rank, and go through its own steps; numbers that cross alone say when."""

    def in_rank(rank: int, world: int) -> dict:
        own, tell = own_inputs(), _teller(rank)
        models = [_Stack(**spec) for spec in own["models"]]
        held = [[*model.parameters(), *model.buffers()] for model in models]
        lies = [[tensor.detach() for tensor in of_model] for of_model in held]
        parameters = [parameter for model in models for parameter in model.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        finishes = [_function(learner.mini_ddp(*asked)) for asked in zip(models, case["bucket_bytes"], strict=True)]
        starts, written, grads = _now(held), _now(lies), []
        tell(-1)
        for step in own["steps"]:
            _backward(models, step, tell)
            for finish in finishes:
                finish()
            tell(-1)
            grads.append([None if p.grad is None else p.grad.clone() for p in parameters])
            optimizer.zero_grad(set_to_none=step["to_none"])
        return {"starts": starts, "written": written, "grads": grads}

    return in_ranks(in_rank, case["world"])


def _now(tensors: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
    return [[tensor.detach().clone() for tensor in of_model] for of_model in tensors]


def _function(value: object) -> Callable[[], object]:
    if not callable(value):
        raise TypeError(f"mini_ddp returned {type(value).__name__}; a function is due")
    return value


def _teller(rank: int) -> Callable[[int], object]:
    """A function that lets a number cross in a group of this rank alone, without waiting: its order is on record."""
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
    """The identity; its backward says that it was come by."""

    @staticmethod
    def forward(ctx, h, told):
        ctx.told = told
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        ctx.told()
        return grad, None


def _backward(models: list[_Stack], step: dict, tell: Callable[[int], object]) -> None:
    """Through all models and back. Each place before a layer, and the one behind all, tells its number, the last first.

    ``gates``: (place, ``"isend"`` or ``"recv"``, peer), what else a rank does there.
    """
    places = itertools.count()

    def told(place: int) -> None:
        tell(place)
        for at, operation, peer in step["gates"]:
            if at == place:
                getattr(dist, operation)(torch.zeros(1), peer)

    def passed(h: torch.Tensor) -> torch.Tensor:
        return _Passed.apply(h, functools.partial(told, next(places)))

    h = step["x"].requires_grad_()
    for model, path in zip(models, step["paths"], strict=True):
        h = model(h, path, passed)
    passed(h).square().sum().backward()


def best_bucket(learner: Learner, case: dict) -> dict:
    """WRITE(best_bucket): what is played, in a line."""
    given = case["x"].detach()  # WRITE(best_bucket): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.best_bucket(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def epoch_indices(learner: Learner, case: dict) -> dict:
    """WRITE(epoch_indices): what is played, in a line."""
    given = case["x"].detach()  # WRITE(epoch_indices): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.epoch_indices(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def reduce_metrics(learner: Learner, case: dict) -> dict:
    """WRITE(reduce_metrics): what is played, in a line."""
    given = case["x"].detach()  # WRITE(reduce_metrics): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.reduce_metrics(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}


def find_desync(learner: Learner, case: dict) -> dict:
    """WRITE(find_desync): what is played, in a line."""
    given = case["x"].detach()  # WRITE(find_desync): what the function is called with
    hand_over(given)
    with observe() as seen:
        result = learner.find_desync(case["x"])
    return {"given": given, "result": result, "lie_at": [place(result)], "seen": seen.to_dict()}
