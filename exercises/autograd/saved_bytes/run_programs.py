"""Functions whose graphs ``saved_bytes`` is asked about. Each maker takes two tensors of the same shape."""

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

HIDDEN = 5
"""Width of a layer in between."""


class Kept:
    """What a function has kept for itself, and what it has found."""

    def __init__(self, ask: Callable) -> None:
        self.ask, self.graphs, self.found = ask, [], []


def _with_x(fn: Callable) -> Callable:
    return lambda x, y, kept: (fn, (x,))


def _with_both(fn: Callable) -> Callable:
    return lambda x, y, kept: (fn, (x, y))


def _halves(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    return lambda a, b: a.sin().sum() + b.cos().sum(), (
        x.detach()[:1].requires_grad_(),
        x.detach()[1:].requires_grad_(),
    )


def _listed(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    return lambda tensors, how: {"out": [how * tensor.sin() for tensor in tensors]}, ([x, y], 2.0)


def _two_rows(x: torch.Tensor) -> torch.Tensor:
    moved = x + 1
    return moved[0] * moved.sin()[1]


def _dropped_branch(x: torch.Tensor) -> torch.Tensor:
    aside = x.sin().exp().detach()
    return (x + 1).tanh() + aside


def _over_and_over(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        out = (x + 1).exp()
    return out


def _gone_back(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    def fn(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad((x.sin() * x.exp()).sum(), x)
        kept.found.append(gradient)
        return (x + gradient).tanh()

    return fn, (x,)


def _penalty(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    """A gradient of a gradient, both taken inside."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(x.exp().sin().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        kept.found.append(second)
        return (x * 2).tanh()

    return fn, (x,)


def _keeps_it_itself(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    return lambda x: kept.graphs.append(x.exp()), (x,)


def _own_hooks(x: torch.Tensor) -> torch.Tensor:
    with saved_tensors_hooks(lambda tensor: tensor.half(), lambda half: half.float()):
        out = x.sin().cos()
    return (out + 1).exp()


def _checkpointed(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda z: z.exp().sin().tanh(), x * 2, use_reentrant=False)


def _asks_itself(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    def fn(x: torch.Tensor) -> torch.Tensor:
        out = x.exp()
        kept.found.append(kept.ask(lambda z: z.sin() * z.tanh(), x))
        return out + (x + 1).tanh()

    return fn, (x,)


def _stops(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    def fn(x: torch.Tensor) -> torch.Tensor:
        (x * 2).exp().sin()
        return {}["a layer that is not there"]

    return fn, (x,)


def _without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.exp().sin()


def _like(layer: torch.nn.Module, x: torch.Tensor) -> torch.nn.Module:
    return (
        layer.to(device=x.device, dtype=x.dtype)
        if x.device.type != "meta"
        else layer.to_empty(device="meta").to(x.dtype)
    )


def _layer(make: Callable[[int], torch.nn.Module]) -> Callable:
    return lambda x, y, kept: (_like(make(x.shape[1]), x), (x,))


def _two_layers(columns: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(columns, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 3))


def _frozen(columns: int) -> torch.nn.Module:
    return torch.nn.Linear(columns, HIDDEN).requires_grad_(False)


def _closes_over(x: torch.Tensor, y: torch.Tensor, kept: Kept) -> tuple:
    weight = torch.ones_like(x).T.contiguous().requires_grad_()
    return lambda x: x @ weight, (x,)


class Table(torch.nn.Module):
    """A buffer that no state_dict shows, and a tensor that is neither parameter nor buffer."""

    def __init__(self, like: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones_like(like))
        self.register_buffer("scale", torch.ones_like(like), persistent=False)
        self.table = torch.ones_like(like)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + x * self.table + (self.weight[:1] * 2).sin()


class Slices(torch.nn.Module):
    """Saves slices of its weight."""

    def __init__(self, like: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones_like(like))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight[-1:]).tanh() + self.weight[1:2].sin()


ALONE = {
    name: _with_x(fn)
    for name, fn in {
        "relu": torch.relu, "gelu": F.gelu, "silu": F.silu, "exp": torch.exp, "sin": torch.sin, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid, "softmax": lambda x: x.softmax(-1), "add": lambda x: x + 1, "neg": torch.neg,
        "double": lambda x: x * 2.0, "sum": torch.sum, "mask": lambda x: x.masked_fill(x.detach() > 0, 0.0),
        "max": lambda x: x.max(-1).values, "norm": lambda x: F.layer_norm(x, x.shape[1:]), "in place": lambda x: (x * 2).relu_(),
    }.items()
} | {"product": _with_both(torch.mul), "matmul": _with_both(lambda x, y: x @ y.T)}  # fmt: skip
STORAGES = {
    "square": _with_x(lambda x: x * x),
    "relu gelu": _with_x(lambda x: F.gelu(torch.relu(x))),
    "exp sin": _with_x(lambda x: x.exp().sin()),
    "sin add exp": _with_x(lambda x: (x.sin() + 1).exp()),
    "gram": _with_x(lambda x: x @ x.T),
    "row": _with_x(lambda x: (x + 1)[:1].sin()),
    "two rows": _with_x(_two_rows),
    "chunks": _with_x(lambda x: sum(row.sin() for row in (x * 2).split(1))),
    "expanded": _with_x(lambda x: x.sum().expand(7, 9).sin()),
    "halves": _halves,
    "listed": _listed,
    "several": _with_both(lambda x, y: x.exp().sin() * y.sin().tanh()),
}
HELD = {
    "dropped branch": _with_x(_dropped_branch),
    "over and over": _with_x(_over_and_over),
    "gone back": _gone_back,
    "penalty": _penalty,
    "keeps it itself": _keeps_it_itself,
    "nothing left": _with_x(lambda x: x.exp().sin().detach()),
    "returns nothing": _with_x(lambda x: (x.exp().sin(), None)[1]),
}
PARAMETERS = {
    "linear": _layer(lambda columns: torch.nn.Linear(columns, HIDDEN)),
    "frozen": _layer(_frozen),
    "two layers": _layer(_two_layers),
    "table": lambda x, y, kept: (Table(x), (x,)),
    "slices": lambda x, y, kept: (Slices(x), (x,)),
    "closes over": _closes_over,
}
OTHERS = {
    "own hooks": _with_x(_own_hooks),
    "checkpointed": _with_x(_checkpointed),
    "asks itself": _asks_itself,
    "stops": _stops,
    "without gradients": _with_x(_without_gradients),
}
PROGRAMS = ALONE | STORAGES | HELD | PARAMETERS | OTHERS


class Watched:
    """``fn`` as it is, or as a function of its own; notes each call."""

    def __init__(self, fn: Callable, inputs: tuple) -> None:
        self._inputs, self.calls = inputs, []
        self.fn = fn
        if isinstance(fn, torch.nn.Module):
            fn.register_forward_pre_hook(lambda module, given: self._note(given))
        else:
            self.fn = lambda *given: (self._note(given), fn(*given))[1]

    def _note(self, given: tuple) -> None:
        same = len(given) == len(self._inputs) and all(
            one is other for one, other in zip(given, self._inputs, strict=True)
        )
        self.calls.append({"same": same, "grad": torch.is_grad_enabled()})


def leaves(value: Any) -> list[torch.Tensor]:
    """The tensors of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if isinstance(value, torch.Tensor) else []
