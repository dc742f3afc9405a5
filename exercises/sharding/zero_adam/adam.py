"""What Adam makes of flat values, in float64, and what comes of the usual mistakes instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

Tensor = torch.Tensor
DEFAULTS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}


def mean(grads: Sequence[Tensor]) -> Tensor:
    return sum(grads) / len(grads)


def _rooted(v: Tensor, eps: float, correction: float) -> Tensor:
    return (v / correction).sqrt() + eps


def _eps_inside(v: Tensor, eps: float, correction: float) -> Tensor:
    return (v / correction + eps).sqrt()


def _eps_corrected(v: Tensor, eps: float, correction: float) -> Tensor:
    return (v.sqrt() + eps) / correction**0.5


@dataclass
class Adam:
    """Flat ``values``, and the moments of them. ``combined``: what becomes of all ranks' gradients."""

    values: Tensor
    lr: float
    betas: Sequence[float]
    eps: float
    combined: Callable[[Sequence[Tensor]], Tensor] = mean
    corrected: bool = True
    root: Callable[[Tensor, float, float], Tensor] = _rooted
    steps: int = 0
    moments: list[Tensor] = field(default_factory=list)

    def step(self, grads: Sequence[Tensor]) -> None:
        """``grads``: each rank's, flat."""
        gradient = self.combined(grads)
        first, second = self.moments or [torch.zeros_like(gradient)] * 2
        self.moments = [
            self.betas[0] * first + (1 - self.betas[0]) * gradient,
            self.betas[1] * second + (1 - self.betas[1]) * gradient**2,
        ]
        self.steps += 1
        corrections = [1 - beta**self.steps if self.corrected else 1.0 for beta in self.betas]
        root = self.root(self.moments[1], self.eps, corrections[1])
        self.values = self.values - self.lr * (self.moments[0] / corrections[0]) / root


RIVALS = (
    (
        {"combined": sum},
        "The parameters are stepped with the sum of the ranks' gradients: their mean is due, as eps shows.",
    ),
    ({"combined": lambda grads: mean(grads) / len(grads)}, "The gradients are divided by the number of ranks twice."),
    (
        {"combined": lambda grads: grads[0]},
        "The parameters are stepped with one rank's gradients: the mean of all is due.",
    ),
    (
        {"corrected": False},
        "The moments are used as they are: both begin at 0, and are divided by 1 - beta^t for that.",
    ),
    ({"root": _eps_inside}, "eps is inside the root: it is added to the root of the second moment."),
    (
        {"root": _eps_corrected},
        "eps is divided by the correction of the second moment too: it is added to the corrected root.",
    ),
)
"""What is otherwise than in :class:`Adam`, and the sentence about it."""
