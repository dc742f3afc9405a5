"""What ``amp_step`` is given: a model, an optimizer and a scaler. Their use is noted as it happens, and they keep none of it."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from autograder.protocol.event_sink import emit_note
from gpulab.compat.autograd import RUN_BACKWARD
from gpulab.cuda.device.patches import Patches
from gpulab.observe.authors import memory


class Script(torch.autograd.Function):
    """Gives its tensor back; the gradient is that of ``factor`` times it. Notes whether autocast was on backward."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(factor)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        emit_note("backward", torch.is_autocast_enabled("cuda"))
        return gradient * ctx.saved_tensors[0], None


class Reader(torch.nn.Module):
    """Rows of readings to logits; in its n-th call the head's bias has the n-th of ``factors`` as factor of its gradient."""

    def __init__(self, weights: list[torch.Tensor], factors: list[float], frozen: bool, strided: bool) -> None:
        super().__init__()
        width = len(weights[0])
        self.norm = torch.nn.LayerNorm(width)
        self.mix, self.head = torch.nn.Linear(width, width), torch.nn.Linear(width, len(weights[2]))
        for parameter, value in zip((*self.mix.parameters(), *self.head.parameters()), weights, strict=True):
            parameter.data = value.clone()
        self.norm.requires_grad_(not frozen)
        self.cuda()
        if strided:
            self.mix.weight.data = self.mix.weight.data.t().contiguous().t()
            self.head.weight.data = torch.stack([self.head.weight.data] * 2, -1)[..., 0]
            self.mix.bias.data = self.mix.bias.data.repeat_interleave(2)[::2]
        self._next_factor = _in_turn(torch.tensor(factors).cuda())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        emit_note("given", str(x.dtype).removeprefix("torch."))
        x = self.mix(self.norm(x))
        x = torch.softmax(x, -1) * x
        return torch.nn.functional.linear(x, self.head.weight, Script.apply(self.head.bias, self._next_factor()))


def _in_turn(factors: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Gives one after the other, and the last for ever."""
    places = iter(range(len(factors) - 1))
    return lambda: factors[next(places, len(factors) - 1)]


def note_steps(optimizer: torch.optim.Optimizer) -> None:
    """Note each step that it takes from now on."""
    optimizer.register_step_pre_hook(lambda *_: emit_note("stepped"))


@contextmanager
def use_noted(scaler: torch.amp.GradScaler | None) -> Iterator[None]:
    """Inside, each call of a method of the scaler's is noted that no other of them makes, also where it is called by the class.

    And each start of autograd's engine, with whether autocast is on: what a hook switches off for one node was on.
    """
    patches, kind = Patches(), torch.amp.GradScaler
    try:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_"):
                patches.set(kind, name, _noting(method, scaler))
        began = _noting_autocast(RUN_BACKWARD[0].value)
        for place in RUN_BACKWARD:
            patches.set(*place, began)
        yield
    finally:
        patches.undo()


def _noting_autocast(engine: Callable) -> Callable:
    def began(*arguments: Any, **settings: Any) -> Any:
        emit_note("engine", torch.is_autocast_enabled("cuda"))
        return engine(*arguments, **settings)

    return began


_inside = ContextVar("inside", default=False)


def _noting(method: Callable, scaler: torch.amp.GradScaler | None) -> Callable:
    @functools.wraps(method)
    def noted(self: torch.amp.GradScaler, *arguments: Any, **settings: Any) -> Any:
        if self is not scaler or _inside.get():
            return method(self, *arguments, **settings)
        emit_note("scaler", method.__name__)
        outside = _inside.set(True)
        try:
            return method(self, *arguments, **settings)
        finally:
            _inside.reset(outside)

    return noted


def scale_of(scaler: torch.amp.GradScaler | None) -> float:
    """The scale, read where no instrument sees it; 0.0 without a scaler, NaN while it has none."""
    if scaler is None:
        return 0.0
    return float("nan") if scaler._scale is None else float(memory(scaler._scale).view("float32")[0])
