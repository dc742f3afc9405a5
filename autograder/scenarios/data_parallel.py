"""Runs the learner's functions for the chapter "Data parallelism in depth" and records what they did."""

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from autograder.scenario_runner import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.ranks import in_ranks, own_inputs

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def mini_ddp(learner: Learner, case: dict) -> dict:
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


def best_bucket(learner: Learner, case: dict) -> dict:
    """Ask every question, and look whether its lists and dictionaries stayed. Layers that are alike are one object."""
    answers = []
    for question in case["questions"]:
        alike: dict = {}
        layers = [alike.setdefault(str(layer), dict(layer)) for layer in question["layers"]]
        link, buckets = dict(question["link"]), list(question["buckets"])
        answer = outcome(lambda given=(layers, link, buckets): _by_size(learner.best_bucket(*given)))
        kept = (layers, link, buckets) == (question["layers"], question["link"], question["buckets"])
        answers.append({**answer, "kept": kept})
    return {"answers": answers}


def _by_size(value: object) -> object:
    """As it is now, its dictionaries as lists of pairs: a key that is a number does not cross as one."""
    if not isinstance(value, dict):
        return value
    return {key: _pairs(entry) if isinstance(entry, dict) else entry for key, entry in value.items()}


def _pairs(entry: dict) -> list:
    return [[size, _number(us)] for size, us in entry.items()]


def _number(number: object) -> object:
    """NumPy's float64 is a float too."""
    return float(number) if isinstance(number, float) else number


def epoch_indices(learner: Learner, case: dict) -> dict:
    """Ask every question after a seed of its own for all global generators, and look what they give afterwards."""
    answers = []
    for question in case["questions"]:
        with _seeded(question["noise"]) as following:
            answer = outcome(lambda q=question: _taken(learner.epoch_indices(*q["asked"], **q["named"])))
        answers.append({**answer, "following": following})
    return {"answers": answers}


@contextmanager
def _seeded(noise: int) -> Iterator[list]:
    """In the block the global generators are seeded. Then the list has what each gives next, and all are as before."""
    states, following = (torch.get_rng_state(), np.random.get_state(), random.getstate()), []
    torch.default_generator.manual_seed(noise)
    np.random.seed(noise)
    random.seed(noise)
    torch.rand(()), np.random.rand(), random.random()  # so that seeding them again does not restore them
    try:
        yield following
        following += [int(torch.randint(2**40, ())), int(np.random.randint(2**31 - 1)), random.randrange(2**40)]
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _taken(value: object) -> object:
    """The lists as they are now. Their owner empties them then: what is kept of them is not what it was."""
    if not isinstance(value, dict):
        return value
    taken = {key: list(entry) if isinstance(entry, list) else entry for key, entry in value.items()}
    for entry in value.values():
        if isinstance(entry, list):
            entry.clear()
    return taken


def reduce_metrics(learner: Learner, case: dict) -> dict:
    """Call it in every rank with the rank's own totals, call after call, with a barrier between two."""

    def in_rank(rank: int, world: int) -> list[dict]:
        found = []
        for number in range(case["calls"]):
            if number:
                dist.barrier()
            totals = {name: (total, count) for name, total, count in own_inputs()["totals"]}
            answer = outcome(lambda totals=totals: learner.reduce_metrics(totals))
            at_once = _pairs_of(answer.get("returned"))
            found.append({**answer, "at_once": at_once, "totals": [[name, value] for name, value in totals.items()]})
        return [
            {**answer, "returned": answer["at_once"], "later": _pairs_of(answer.get("returned"))} for answer in found
        ]

    return in_ranks(in_rank, case["world"])


def _pairs_of(value: object) -> object:
    """What a dictionary of any class holds now, as pairs: a key that is no string does not cross as one."""
    return {"pairs": [list(pair) for pair in dict.items(value)]} if isinstance(value, dict) else value


def find_desync(learner: Learner, case: dict) -> dict:
    """Ask every question; give what the logs are after it, too."""
    answers = []
    for question in case["questions"]:
        answer = outcome(lambda logs=question["logs"]: _plain(learner.find_desync(logs)))
        answers.append({**answer, "logs": question["logs"]})
    return {"answers": answers}


def _plain(value: object) -> object:
    """As it is, but for keys that are no strings: they would become strings on the way."""
    if not isinstance(value, dict):
        return value
    return {
        key: {"items": [*map(list, part.items())]} if isinstance(part, dict) else part for key, part in value.items()
    }
