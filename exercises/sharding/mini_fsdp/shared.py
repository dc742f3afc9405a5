"""E15.2: the units, the same in every rank and in the referee.

A unit is a dictionary: its ``kind``, its ``tensors``, and whether it is ``deep``: then a module inside has the last two.
"""

from collections.abc import Callable

import torch
from torch import nn

Tell = Callable[[int], object]


class _Unit(nn.Module):
    def __init__(self, unit: dict) -> None:
        super().__init__()
        self._kind = unit["kind"]
        self._deep, self.inside = unit["deep"], nn.Module()
        for name, values in unit["tensors"].items():
            if name == "scale":
                self.register_buffer(name, values.clone())
            else:
                setattr(self._of(name), name, nn.Parameter(values.clone()))

    def _of(self, name: str) -> nn.Module:
        return self.inside if self._deep and name in ("weight", "bias") else self

    def computed(self, h: torch.Tensor) -> torch.Tensor:
        if self._kind == "scale":
            return h * self.by
        if self._kind == "bend":
            return torch.tanh(h)
        weight, bias = (getattr(self._of(name), name) for name in ("weight", "bias"))
        if self._kind == "linear":
            return nn.functional.linear(h, weight, bias)
        inner = h * self.scale if hasattr(self, "scale") else h
        return h + self.g * (torch.tanh(nn.functional.linear(inner, weight, bias)) @ self.down)


def _telling(unit: dict, tell: Tell, number: int) -> _Unit:
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

    return Telling(unit)


def built(units: list[dict], tell: Tell) -> nn.Sequential:
    return nn.Sequential(*(_telling(unit, tell, number) for number, unit in enumerate(units)))
