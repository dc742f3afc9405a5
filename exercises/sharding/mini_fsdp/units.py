"""E15.2: units as the referee has them, and one process that trains them with all ranks' batches.

A unit is a dictionary: its ``kind`` and its ``tensors``. Flat, its parameters stand in the order of ``unit.parameters()``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case

Tensor = torch.Tensor
_ORDER = {
    "embed": ("table",),
    "block": ("g", "down", "weight", "bias"),
    "linear": ("weight", "bias"),
    "scale": ("by",),
    "bend": (),
}


@dataclass(frozen=True)
class Sharded:
    """A unit with parameters. ``number``: its place among all units; ``needed``: whether its backward needs its parameters."""

    number: int
    flat: Tensor
    part: int
    needed: bool

    @property
    def part_bytes(self) -> int:
        """Of what one rank holds of it."""
        return 4 * self.part


def _parameters(unit: dict) -> list[Tensor]:
    return [unit["tensors"][name] for name in _ORDER[unit["kind"]]]


def sharded(units: Sequence[dict], world: int) -> list[Sharded]:
    """The units that have parameters, in order, and how many elements a rank has of each."""
    found: list[Sharded] = []
    for number, unit in enumerate(units):
        if parameters := _parameters(unit):
            flat = torch.cat([p.reshape(-1) for p in parameters])
            needed = unit["kind"] == "block" or (bool(found) and unit["kind"] != "embed")
            found.append(Sharded(number, flat, -(-len(flat) // world), needed))
    return found


@dataclass(frozen=True)
class Passed:
    """What is due of one pass: each rank's output; each rank's own gradients of each unit, and what is in `.grad` after it, flat."""

    outs: list[Tensor]
    own: list[list[Tensor]]
    grads: list[Tensor] | None


def passed(case: Case) -> Iterator[Passed]:
    """Pass after pass of one process in float64, which makes the optimizer's steps."""
    first = case.per_rank_inputs[0]
    values = [unit.flat.double() for unit in sharded(first["units"], case.ranks)]
    grads: list[Tensor] | None = None
    for every in zip(*(own["passes"] for own in case.per_rank_inputs), strict=True):
        outs, own = zip(*(_computed(first["units"], values, one["x"]) for one in every), strict=True)
        if every[0]["do"] == "train":
            means = [sum(of) / len(of) for of in zip(*own, strict=True)]
            grads = means if grads is None else [old + new for old, new in zip(grads, means, strict=True)]
        yield Passed(list(outs), list(own), grads)
        if every[0]["then"] == "to none":
            values = [value - case.inputs["lr"] * grad for value, grad in zip(values, grads, strict=True)]
        if every[0]["then"] != "keep":
            grads = None


def _computed(units: Sequence[dict], values: Sequence[Tensor], x: Tensor) -> tuple[Tensor, list[Tensor]]:
    leaves = [value.clone().requires_grad_() for value in values]
    h, whole = (x.double() if x.is_floating_point() else x), iter(leaves)
    for unit in units:
        likes = _parameters(unit)
        parts = next(whole).split([like.numel() for like in likes]) if likes else ()
        h = _forward(unit, h, [part.reshape(like.shape) for part, like in zip(parts, likes, strict=True)])
    return h.detach(), list(torch.autograd.grad(h.square().sum(), leaves))


def _forward(unit: dict, h: Tensor, p: list[Tensor]) -> Tensor:
    kind = unit["kind"]
    if kind == "embed":
        return p[0][h]
    if kind == "block":
        g, down, weight, bias = p
        return h + g * (torch.tanh((h * unit["tensors"]["scale"].double()) @ weight.t() + bias) @ down)
    if kind == "linear":
        return h @ p[0].t() + p[1]
    return h * p[0] if kind == "scale" else torch.tanh(h)
