"""E15.2: the units, the same in every rank and in the referee. A unit is the tensors that it is made of, by name."""

from collections.abc import Callable

import torch
from torch import nn


class _Unit(nn.Module):
    """A block around a linear layer, which with a buffer lies in a module inside; that layer alone; a scale; or a bend."""

    def __init__(self, tensors: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.inside = nn.Module()
        self.register_buffer("scale", tensors.get("scale"))
        for name, values in tensors.items():
            if name != "scale":
                setattr(self._layer if name in ("weight", "bias") else self, name, nn.Parameter(values.clone()))

    @property
    def _layer(self) -> nn.Module:
        return self if self.scale is None else self.inside

    def computed(self, h: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "by"):
            return h * self.by
        if not hasattr(self._layer, "weight"):
            return torch.tanh(h)
        inner = nn.functional.linear(h if self.scale is None else h * self.scale, self._layer.weight, self._layer.bias)
        return h + self.g * (torch.tanh(inner) @ self.down) if hasattr(self, "g") else inner


def _telling(tensors: dict[str, torch.Tensor], tell: Callable[[int], object], number: int) -> _Unit:
    """Tells ``2 * number`` when its forward begins, and ``2 * number + 1`` when its backward does.

    What it tells is no attribute of the unit or of its output's graph, which the learner is handed: it could be replaced.
    """

    class Passed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            return h.view_as(h)

        @staticmethod
        def backward(ctx, grad):
            tell(2 * number + 1)
            return grad

    class Telling(_Unit):
        def forward(self, h: torch.Tensor) -> torch.Tensor:
            tell(2 * number)
            return Passed.apply(self.computed(h))

    return Telling(tensors)


def built(units: list[dict], tell: Callable[[int], object] = lambda number: None) -> nn.Sequential:
    return nn.Sequential(*(_telling(tensors, tell, number) for number, tensors in enumerate(units)))
