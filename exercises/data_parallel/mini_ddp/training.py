"""E14.1: a case that came to its end: what each rank did in each step, and its own gradients, worked out by the referee."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from autograder.core.exercise import Case
from autograder.judge.ranks import Span, handed_in
from exercises.data_parallel.mini_ddp.shared import built, held, loss

Tensor = torch.Tensor
Bucket = dict[str, nn.Parameter]
"""Parameters by name, with rank 0's values. A name is ``<model>.layers.<layer>.<a, b or g>``."""


@dataclass(frozen=True)
class RankStep:
    """A rank in a step. ``grads``: its own, by parameter, before they are reduced. All elements of them are numbered.

    ``span``: what it launched, and its count of requests when the backward pass had a layer behind it.
    """

    span: Span
    grads: dict[str, Tensor]
    world: int
    near: float

    @cached_property
    def owners(self) -> list[str]:
        """Of each element its parameter."""
        return [name for name, grad in self.grads.items() for _ in range(grad.numel())]

    def elements_of(self, bucket: Bucket) -> list[int]:
        return [element for element, name in enumerate(self.owners) if name in bucket]

    def elements_in(self, given: bytes, dtype: str) -> list[int]:
        """Those found in what this rank handed in, in its order, as they are or divided by the number of ranks."""
        values = handed_in(given, dtype).double()
        return max(self._found(values), self._found(self.world * values), key=len)

    def _found(self, values: Tensor) -> list[int]:
        own, order = torch.cat([grad.reshape(-1).double() for grad in self.grads.values()]).sort()
        nearest = torch.bucketize(values, (own[1:] + own[:-1]) / 2)
        sizes = own.abs()
        near = self.near * sizes[nearest].clamp(min=0.1 * float(sizes.max()))
        return order[nearest[(values - own[nearest]).abs() <= near]].tolist()

    def ready(self, elements: Collection[int]) -> dict[str, int]:
        """Of each model that has some of the elements the rank's count of requests by which all of them were ready."""
        ready: dict[str, int] = {}
        for model, _, layer, _ in {tuple(self.owners[element].split(".")) for element in elements}:
            ready[model] = max(self.span.marks[10 * int(model) + int(layer)], ready.get(model, 0))
        return ready


@dataclass(frozen=True)
class Training:
    """What each rank said and did, and as which ``models`` rank 0 began. ``spans``: of each rank; ``steps``: of each, every rank's.

    ``near``: how much of a number's size two computations of it may differ by.
    """

    models: nn.ModuleList
    limits: Sequence[int]
    results: Sequence[dict]
    spans: Sequence[Sequence[Span]]
    steps: Sequence[Sequence[RankStep]]
    near: float

    def buckets(self) -> list[list[Bucket]]:
        """Of each model, in order."""
        pairs = zip(self.models, self.limits, strict=True)
        return [_buckets(model.named_parameters(str(m)), full) for m, (model, full) in enumerate(pairs)]


def training(case: Case, results: Sequence[dict], spans: Sequence[Sequence[Span]]) -> Training:
    models, by_rank = built(case.per_rank_inputs[0]["models"]), []
    near = 1e-9 if {p.dtype for p in models.parameters()} == {torch.float64} else 2e-5
    for own, said, (_, *of_steps, _) in zip(case.per_rank_inputs, results, spans, strict=True):
        grads = [_gradients(own["models"], said["starts"], step) for step in own["steps"]]
        by_rank.append([RankStep(*done, case.ranks, near) for done in zip(of_steps, grads, strict=True)])
    return Training(models, case.inputs["bucket_bytes"], results, spans, list(zip(*by_rank, strict=True)), near)


def _gradients(models: list[dict], starts: list[Tensor], step: dict) -> dict[str, Tensor]:
    """Of models that hold ``starts``: of all parameters but those that are frozen, or that the step does not use."""
    made = built(models)
    with torch.no_grad():
        for tensor, start in zip(held(made), starts, strict=True):
            tensor.copy_(start)
    loss(made, step).backward()
    return {name: p.grad for name, p in made.named_parameters() if p.grad is not None}


def _buckets(parameters: Iterable[tuple[str, nn.Parameter]], full: int) -> list[Bucket]:
    """PyTorch's, in the order in which they were opened; ``full``: the bytes at which one is."""
    found: list[Bucket] = []
    opened: dict[torch.dtype, Bucket] = {}
    for name, parameter in reversed([(name, p) for name, p in parameters if p.requires_grad]):
        if parameter.dtype not in opened:
            opened[parameter.dtype] = {}
            found.append(opened[parameter.dtype])
        bucket = opened[parameter.dtype]
        bucket[name] = parameter
        if sum(p.nbytes for p in bucket.values()) >= full:
            del opened[parameter.dtype]
    return found
