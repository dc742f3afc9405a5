"""E15.2: the units, the same in every rank and in the referee.

A unit is a dictionary: its ``kind``, its ``tensors``, and whether it is ``deep``: then a module inside has the last two.
"""

from collections.abc import Callable

import torch
from torch import nn

Tell = Callable[[int], object]


class _Unit(nn.Module):
    """Tells ``2 * number`` when its forward begins, and ``2 * number + 1`` when its backward does."""

    def __init__(self, unit: dict, tell: Tell, number: int) -> None:
        super().__init__()
        self._kind, self._tell, self._number = unit["kind"], tell, number
        self._deep, self.inside = unit["deep"], nn.Module()
        for name, values in unit["tensors"].items():
            if name == "scale":
                self.register_buffer(name, values.clone())
            else:
                setattr(self._of(name), name, nn.Parameter(values.clone()))

    def _of(self, name: str) -> nn.Module:
        return self.inside if self._deep and name in ("weight", "bias") else self

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        self._tell(2 * self._number)
        return _Passed.apply(self._compute(h), self._tell, 2 * self._number + 1)

    def _compute(self, h: torch.Tensor) -> torch.Tensor:
        if self._kind == "scale":
            return h * self.by
        if self._kind == "bend":
            return torch.tanh(h)
        weight, bias = (getattr(self._of(name), name) for name in ("weight", "bias"))
        if self._kind == "linear":
            return nn.functional.linear(h, weight, bias)
        inner = h * self.scale if hasattr(self, "scale") else h
        return h + self.g * (torch.tanh(nn.functional.linear(inner, weight, bias)) @ self.down)


class _Passed(torch.autograd.Function):
    """The identity; its backward tells a number."""

    @staticmethod
    def forward(ctx, h, tell, number):
        ctx.tell, ctx.number = tell, number
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        ctx.tell(ctx.number)
        return grad, None, None


def built(units: list[dict], tell: Tell) -> nn.Sequential:
    return nn.Sequential(*(_Unit(unit, tell, number) for number, unit in enumerate(units)))
