"""What ``train_step`` is given: a network, a loss function and an optimizer, whose use is noted as it happens.

Notes, by their word: ``called``, what is held when the network is called, and whether it trains; ``forward``, its ``forward`` ran;
``loss``, the loss function gave it; ``stepping``, what is held when the optimizer steps; ``stepped``, the host's clock afterwards.
"""

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import ref

import torch

from autograder.protocol.event_sink import emit_note
from gpulab.cuda.device import state
from gpulab.observe.authors import memory


class BackgroundWorkDetector:
    """Is alive as long as the node of the graph that carries it."""


class Marked(torch.autograd.Function):
    """Gives its tensor back; ``born`` is handed what lives as long as its node in the graph."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, born: Callable[[object], None]) -> torch.Tensor:
        ctx.detector = BackgroundWorkDetector()
        born(ctx.detector)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        return gradient, None


def marking(born: list[ref]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A :class:`Marked` that notes each forward pass; ``born`` are its nodes, which the scenario keeps."""

    def mark(tensor: torch.Tensor) -> torch.Tensor:
        emit_note("forward")
        return Marked.apply(tensor, lambda detector: born.append(ref(detector)))

    return mark


def alive(born: list[ref]) -> int:
    return sum(node() is not None for node in born)


def stopping(number: int, error: type[BaseException]) -> Callable[[], None]:
    """A function that raises ``error`` in its call ``number``; 0: in none."""
    calls = count(1)

    def ask() -> None:
        if next(calls) == number:
            raise error("stopped")

    return ask


class Network(torch.nn.Module):
    """Layers with a tanh between them; ``spare`` takes no part, ``gain`` requires no gradient.

    ``beside``: it returns a pair, whose second has a graph of its own that the loss does not go through.
    """

    def __init__(self, weights: list[torch.Tensor], mark: Callable, beside: bool = False) -> None:
        super().__init__()
        self.beside, self._mark = beside, mark
        matrices, biases, (spare, gain) = weights[:-2:2], weights[1:-2:2], weights[-2:]
        self.body = torch.nn.Sequential(*[_Layer(*pair) for pair in zip(matrices[:-1], biases[:-1], strict=True)])
        self.head = _Layer(matrices[-1], biases[-1])
        self.spare = torch.nn.Parameter(spare.clone())
        self.gain = torch.nn.Parameter(gain.clone(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside = (x @ self.body[0].weight.T).exp().exp().sum() if self.beside else None
        for layer in self.body:
            x = layer(x).tanh()
        output = self._mark(self.head(x) * self.gain)
        return (output, aside) if self.beside else output


class _Layer(torch.nn.Linear):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight, self.bias = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(bias.clone())


class Loss:
    """Output and target play different parts in it. What it gives is read where nobody sees it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, output: torch.Tensor | tuple, target: torch.Tensor) -> torch.Tensor:
        output = output[0] if isinstance(output, tuple) else output
        rows = (output - 2 * target).square().mean(-1)
        loss = {"rows": lambda: rows, "one": lambda: rows.mean()[None], "scalar": lambda: rows.mean()}[self.kind]()
        emit_note("loss", memory(loss).view(str(loss.dtype).removeprefix("torch."))[0].item())
        return loss


def note_use(model: Network, optimizer: torch.optim.Optimizer) -> None:
    """From now on note, at each call of the network and each step of the optimizer, what is held then."""
    held = lambda: holds(model, optimizer)
    model.register_forward_pre_hook(lambda *_: emit_note("called", {**_state_of(model), **held()}))
    optimizer.register_step_pre_hook(lambda *_: emit_note("stepping", held()))
    optimizer.register_step_post_hook(lambda *_: emit_note("stepped", now_us()))


def _state_of(model: Network) -> dict:
    """Whether all of it trains, and how many gradients are there from before."""
    return {"training": all(module.training for module in model.modules()), "old": gradients_of(model)}


def gradients_of(model: torch.nn.Module) -> int:
    return sum(parameter.grad is not None for parameter in model.parameters())


def holds(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes of the card: all that is allocated, and of it the gradients and the optimizer's state."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    states = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    sums = {name: sum(map(_taken, tensors)) for name, tensors in (("gradients", gradients), ("state", states))}
    return {"all": torch.cuda.memory_allocated(), **sums}


def parameter_groups(model: torch.nn.Module, case: dict) -> list:
    """What requires gradients, in one group, or what has one dimension in a group of its own, with twice the rate."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not case["groups"]:
        return trained
    slow, fast = [p for p in trained if p.ndim == 2], [p for p in trained if p.ndim == 1]
    return [{"params": slow}, {"params": fast, "lr": 2 * case["options"]["lr"]}]


def left_over(model: torch.nn.Module, case: dict) -> list[torch.Tensor]:
    """Gradients from before, all of one value, where the case has any; those that the caller keeps are returned."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad and case["old"] is not None]
    for parameter in trained:
        parameter.grad = torch.full_like(parameter, case["old"])
    return [parameter.grad for parameter in trained] if case["caller_keeps"] else []


def now_us() -> float:
    """The host's clock beside the card."""
    return state.device_on().machine.host_us


def _taken(tensor: torch.Tensor) -> int:
    """Bytes that the allocator takes for a tensor of its own."""
    return -(-tensor.nbytes // 512) * 512 if tensor.is_cuda else 0
