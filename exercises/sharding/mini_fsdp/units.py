"""E15.2: units as the referee has them, flat, and one process that trains them with all ranks' batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case
from exercises.sharding.mini_fsdp.shared import built

Tensor = torch.Tensor


@dataclass(frozen=True)
class Sharded:
    """A unit with parameters. ``number``: its place among all units; ``part``: how many elements a rank has of it."""

    number: int
    flat: Tensor
    part: int

    @property
    def part_bytes(self) -> int:
        return 4 * self.part


def _flattened(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def sharded(units: list[dict], world: int) -> list[Sharded]:
    """The units that have parameters, in order."""
    owned = [list(unit.parameters()) for unit in built(units, _nobody)]
    flat = {number: _flattened(parameters) for number, parameters in enumerate(owned) if parameters}
    return [Sharded(number, values, -(-len(values) // world)) for number, values in flat.items()]


def _nobody(number: int) -> None:
    """Is told what a unit tells, in the referee."""


@dataclass(frozen=True)
class Passed:
    """What is due of one pass: each rank's output; each rank's own gradients of each unit, and what is in `.grad` after it, flat."""

    outs: list[Tensor]
    own: list[list[Tensor]]
    grads: list[Tensor] | None


def passed(case: Case) -> Iterator[Passed]:
    """Pass after pass of one process in float64, which makes the optimizer's steps."""
    units = case.per_rank_inputs[0]["units"]
    values = [unit.flat.double() for unit in sharded(units, case.ranks)]
    grads: list[Tensor] | None = None
    for every in zip(*(own["passes"] for own in case.per_rank_inputs), strict=True):
        outs, own = zip(*(_computed(units, values, one["x"]) for one in every), strict=True)
        if every[0]["do"] == "train":
            means = [sum(of) / len(of) for of in zip(*own, strict=True)]
            grads = means if grads is None else [old + new for old, new in zip(grads, means, strict=True)]
        yield Passed(list(outs), list(own), grads)
        if every[0]["then"] == "to none":
            values = [value - case.inputs["lr"] * grad for value, grad in zip(values, grads, strict=True)]
        if every[0]["then"] != "keep":
            grads = None


def _computed(units: list[dict], values: Sequence[Tensor], x: Tensor) -> tuple[Tensor, list[Tensor]]:
    model = built(units, _nobody).double()
    owned = [parameters for unit in model if (parameters := list(unit.parameters()))]
    for parameters, flat in zip(owned, values, strict=True):
        for parameter, own in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.data = own.view(parameter.shape)
    out = model(x.double())
    out.square().sum().backward()
    return out.detach(), [_flattened([parameter.grad for parameter in parameters]) for parameters in owned]
