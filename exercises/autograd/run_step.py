"""What ``train_step`` is given: a network, a loss function and an optimizer, all of which note how they are used."""

from typing import Any
from weakref import ref

import torch

from gpulab.cuda.device import state
from gpulab.observe.authors import memory


class BackgroundWorkDetector:
    """Is alive as long as the node of the graph that carries it."""


class Marked(torch.autograd.Function):
    """Gives its tensor back; its node in the graph can be told to be alive or not."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, nodes: list[ref]) -> torch.Tensor:
        ctx.detector = BackgroundWorkDetector()
        nodes.append(ref(ctx.detector))
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        return gradient, None


class Network(torch.nn.Module):
    """Layers with a tanh between them; ``spare`` takes no part, ``gain`` requires no gradient.

    ``beside``: it returns a pair, whose second has a graph of its own that the loss does not go through.
    """

    def __init__(self, weights: list[torch.Tensor], beside: bool = False) -> None:
        super().__init__()
        self.beside = beside
        matrices, biases, (spare, gain) = weights[:-2:2], weights[1:-2:2], weights[-2:]
        self.body = torch.nn.Sequential(*[_Layer(*pair) for pair in zip(matrices[:-1], biases[:-1], strict=True)])
        self.head = _Layer(matrices[-1], biases[-1])
        self.spare = torch.nn.Parameter(spare.clone())
        self.gain = torch.nn.Parameter(gain.clone(), requires_grad=False)
        self.nodes: list[ref] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside = (x @ self.body[0].weight.T).exp().exp().sum() if self.beside else None
        for layer in self.body:
            x = layer(x).tanh()
        output = Marked.apply(self.head(x) * self.gain, self.nodes)
        return (output, aside) if self.beside else output


class _Layer(torch.nn.Linear):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight, self.bias = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(bias.clone())


class Loss:
    """Output and target play different parts in it. ``value``: what the first of ``calls`` came to, read where nobody sees it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.calls, self.value = kind, 0, 0.0

    def __call__(self, output: torch.Tensor | tuple, target: torch.Tensor) -> torch.Tensor:
        output = output[0] if isinstance(output, tuple) else output
        rows = (output - 2 * target).square().mean(-1)
        loss = {"rows": lambda: rows, "one": lambda: rows.mean()[None], "scalar": lambda: rows.mean()}[self.kind]()
        if not self.calls:
            self.value = memory(loss).view(str(loss.dtype).removeprefix("torch."))[0].item()
        self.calls += 1
        return loss


class Watch:
    """Notes, at each call of the network and each step of the optimizer, what is held then."""

    def __init__(self, model: Network, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self.calls: list[dict] = []
        self.steps: list[dict] = []
        model.register_forward_pre_hook(self._called)
        optimizer.register_step_pre_hook(self._steps)
        optimizer.register_step_post_hook(self._stepped)

    def holds(self) -> dict[str, int]:
        """Bytes of the card: all that is allocated, and of it the gradients and the optimizer's state."""
        gradients = [p.grad for p in self._model.parameters() if p.grad is not None]
        states = [
            value
            for each in self._optimizer.state.values()
            for value in each.values()
            if isinstance(value, torch.Tensor)
        ]
        sums = {name: sum(map(_taken, tensors)) for name, tensors in (("gradients", gradients), ("state", states))}
        return {"all": torch.cuda.memory_allocated(), **sums}

    def _called(self, model: Network, inputs: tuple) -> None:
        modes = [module.training for module in model.modules()]
        old = sum(p.grad is not None for p in model.parameters())
        self.calls.append({"training": all(modes), "old": old, **self.holds()})

    def _steps(self, *_: Any) -> None:
        self.steps.append(self.holds())

    def _stepped(self, *_: Any) -> None:
        self.steps[-1]["us"] = now_us()


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
