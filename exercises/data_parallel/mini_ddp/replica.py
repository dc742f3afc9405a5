"""E14.1: the models as the referee has them. It works out every rank's own gradients, and when each is ready.

A model is a dictionary: ``layers``, of each the ``weights`` a, b and g, which of them are ``frozen``, and the buffer
``scale``; and two buffers that no layer uses. What a rank holds of it is a list: parameters in order, then buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

PER_LAYER = 3
Tensor = torch.Tensor


@dataclass(frozen=True)
class Parameter:
    """One of a model's. ``layer``: which of its layers has it; ``number``: its place in ``model.parameters()``."""

    number: int
    layer: int
    like: Tensor
    frozen: bool


def parameters(model: dict) -> list[Parameter]:
    """In the order of ``model.parameters()``."""
    layers = enumerate(model["layers"])
    found = [(i, *what) for i, layer in layers for what in zip(layer["weights"], layer["frozen"], strict=True)]
    return [Parameter(number, *what) for number, what in enumerate(found)]


def held(model: dict) -> list[Tensor]:
    """What a rank begins with: parameters, then buffers, in the model's order."""
    scales = [layer["scale"] for layer in model["layers"]]
    return [*(parameter.like for parameter in parameters(model)), model["count"], model["on"], *scales]


def buckets(model: dict, most: int) -> list[list[Parameter]]:
    """Which gradients cross together, in order, with at most ``most`` bytes in one."""
    found: list[list[Parameter]] = []
    for parameter in reversed([p for p in parameters(model) if not p.frozen]):
        last = found[-1] if found else []
        fits = sum(p.like.nbytes for p in last) + parameter.like.nbytes <= most
        if last and fits and last[0].like.dtype == parameter.like.dtype:
            last.append(parameter)
        else:
            found.append([parameter])
    return found


def gradients(models: Sequence[dict], starts: Sequence[Sequence[Tensor]], step: dict) -> list[list[Tensor | None]]:
    """Of a rank that holds ``starts``: of every model's parameters, frozen or not; None where a step does not use it."""
    leaves = [
        [start.detach().clone().requires_grad_() for start in own[: _count(model)]]
        for model, own in zip(models, starts, strict=True)
    ]
    h = step["x"].detach()
    for model, own, mine, path in zip(models, starts, leaves, step["paths"], strict=True):
        scales = own[_count(model) + 2 :]
        for number in path:
            a, b, g = mine[PER_LAYER * number : PER_LAYER * (number + 1)]
            h = h.to(a.dtype) * scales[number]
            h = h + g * (torch.tanh(h @ a.t()) @ b.t())
    if not h.requires_grad:
        return [[None] * len(mine) for mine in leaves]
    found = iter(torch.autograd.grad(h.square().sum(), [leaf for mine in leaves for leaf in mine], allow_unused=True))
    return [[next(found) for _ in mine] for mine in leaves]


def _count(model: dict) -> int:
    return PER_LAYER * len(model["layers"])


def ready_at(model: int, layer: int, step: dict) -> int | None:
    """The place at which a layer's gradients are ready, the last place first; None where the step does not use it."""
    before = sum(map(len, step["paths"][:model]))
    places = [before + i for i, number in enumerate(step["paths"][model]) if number == layer]
    return min(places, default=None)


def top(step: dict) -> int:
    """The place at which the backward pass begins."""
    return sum(map(len, step["paths"]))
