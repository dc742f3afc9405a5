"""E15.2: units as the referee has them. It works out what a rank computes with given parts, and every rank's own gradients.

A unit is a dictionary: its ``kind`` and its ``tensors``. What a rank hands in of it is flat: its parameters in the order of
``unit.parameters()``, one behind the other, and zeros until the number of ranks divides the length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

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
    unit: dict
    part: int
    needed: bool

    @property
    def part_bytes(self) -> int:
        """Of what one rank holds of it."""
        return 4 * self.part


def parameters(unit: dict) -> list[Tensor]:
    """In the order of ``unit.parameters()``."""
    return [unit["tensors"][name] for name in _ORDER[unit["kind"]]]


def sharded(models: Sequence[Sequence[dict]], world: int, input_requires_grad: bool = False) -> list[Sharded]:
    """The units of all models that have parameters, in order, and how many elements a rank has of each."""
    found, takes_gradient = [], input_requires_grad
    for number, unit in enumerate(unit for model in models for unit in model):
        if numbers := sum(p.numel() for p in parameters(unit)):
            needed = unit["kind"] == "block" or (takes_gradient and unit["kind"] != "embed")
            found.append(Sharded(number, unit, -(-numbers // world), needed))
            takes_gradient = True
    return found


def flat(tensors: Sequence[Tensor], length: int) -> Tensor:
    """One behind the other, and zeros up to ``length``."""
    whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
    return torch.cat([whole, whole.new_zeros(length - len(whole))])


def output(models: Sequence[Sequence[dict]], values: Sequence[Tensor], x: Tensor) -> Tensor:
    """What the models give for ``x``; ``values``: of each unit with parameters all of it, flat."""
    h, whole = (x if not x.is_floating_point() else x.double()), iter(values)
    for unit in (unit for model in models for unit in model):
        h = _compute(unit, h, _split(unit, next(whole)) if parameters(unit) else [])
    return h


def gradients(
    models: Sequence[Sequence[dict]], values: Sequence[Tensor], x: Tensor
) -> tuple[list[Tensor], Tensor | None]:
    """Of a rank with the batch ``x``: of each unit with parameters, flat, as float64, 0 where it is padded; and of ``x``."""
    leaves = [value.double().requires_grad_() for value in values]
    inputs = [x.double().requires_grad_()] if x.is_floating_point() else []
    loss = output(models, leaves, inputs[0] if inputs else x).square().sum()
    found = torch.autograd.grad(loss, [*leaves, *inputs])
    return list(found[: len(leaves)]), found[-1] if inputs else None


def _split(unit: dict, whole: Tensor) -> list[Tensor]:
    likes = parameters(unit)
    sizes = [like.numel() for like in likes]
    parts = whole[: sum(sizes)].double().split(sizes)
    return [part.reshape(like.shape) for part, like in zip(parts, likes, strict=True)]


def _compute(unit: dict, h: Tensor, p: list[Tensor]) -> Tensor:
    kind = unit["kind"]
    if kind == "embed":
        return p[0][h]
    if kind == "block":
        g, down, weight, bias = p
        return h + g * (torch.tanh((h * unit["tensors"]["scale"].double()) @ weight.t() + bias) @ down)
    if kind == "linear":
        return h @ p[0].t() + p[1]
    return h * p[0] if kind == "scale" else torch.tanh(h)
