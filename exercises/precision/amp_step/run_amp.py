"""What ``amp_step`` is given: a model that notes what it meets, an optimizer and a scaler that note their calls."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpulab.observe.authors import memory


class Script(torch.autograd.Function):
    """Gives its tensor back; the gradient is that of ``factor`` times it. Notes whether autocast was on backward."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, factor: torch.Tensor, regions: list[bool]) -> torch.Tensor:
        ctx.save_for_backward(factor)
        ctx.regions = regions
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        ctx.regions.append(torch.is_autocast_enabled("cuda"))
        return gradient * ctx.saved_tensors[0], None, None


class Reader(torch.nn.Module):
    """Rows of readings to logits; in its n-th call the head's bias has the n-th of ``factors`` as factor of its gradient."""

    def __init__(self, weights: list[torch.Tensor], factors: list[float], frozen: bool) -> None:
        super().__init__()
        width = len(weights[0])
        self.norm = torch.nn.LayerNorm(width)
        self.mix, self.head = torch.nn.Linear(width, width), torch.nn.Linear(width, len(weights[2]))
        for parameter, value in zip((*self.mix.parameters(), *self.head.parameters()), weights, strict=True):
            parameter.data = value.clone()
        self.norm.requires_grad_(not frozen)
        self._factors = torch.tensor(factors)
        self.met: list[str] = []
        self.regions: list[bool] = []

    def place(self) -> "Reader":
        """On the card, with its factors."""
        self._factors = self._factors.cuda()
        return self.cuda()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self._factors[min(len(self.met), len(self._factors) - 1)]
        self.met.append(str(x.dtype).removeprefix("torch."))
        x = self.mix(self.norm(x))
        x = torch.softmax(x, -1) * x
        return torch.nn.functional.linear(x, self.head.weight, Script.apply(self.head.bias, factor, self.regions))


class NotingSGD(torch.optim.SGD):
    """Counts its steps."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.steps = 0

    def step(self, closure: Callable | None = None) -> Any:
        self.steps += 1
        return super().step(closure)


def _noting(name: str) -> Callable:
    method = getattr(torch.amp.GradScaler, name)

    @functools.wraps(method)
    def noted(self: "Scaler", *arguments: Any, **settings: Any) -> Any:
        with self.inside(name):
            return method(self, *arguments, **settings)

    return noted


class Scaler(torch.amp.GradScaler):
    """PyTorch's; notes which of its methods are called from outside."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.calls: list[str] = []
        self._depth = 0

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        if not self._depth:
            self.calls.append(name)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def now(self) -> float:
        """The scale, read where no instrument sees it."""
        return float("nan") if self._scale is None else float(memory(self._scale).view("float32")[0])


for _name, _method in vars(torch.amp.GradScaler).items():
    if callable(_method) and not _name.startswith("_"):
        setattr(Scaler, _name, _noting(_name))
