"""E14.1: the models and their loss, the same in every rank and in the referee.

A model is described by its ``layers``, of each the ``weights``, which of them are ``frozen``, the buffer ``scale``, and whether
the last of its weights is ``tied`` to that of the first layer; and by the buffers ``count`` and ``on``, which no layer uses.
"""

from collections.abc import Callable

import torch
from torch import nn

Tensor = torch.Tensor


class Layer(nn.Module):
    """Three parameters of one dtype and a buffer."""

    def __init__(self, weights: list[Tensor], frozen: list[bool], scale: Tensor, persistent: bool) -> None:
        super().__init__()
        self.a, self.b, self.g = (nn.Parameter(w.clone(), not f) for w, f in zip(weights, frozen, strict=True))
        self.register_buffer("scale", scale.clone(), persistent)

    def forward(self, h: Tensor) -> Tensor:
        h = h.to(self.a.dtype) * self.scale
        return h + self.g * (torch.tanh(h @ self.a.t()) @ self.b.t())


class Stack(nn.Module):
    """Layers, of which every other one's buffer is in the state dictionary, and two buffers that none of them uses."""

    def __init__(self, layers: list[dict], count: Tensor, on: Tensor) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for i, layer in enumerate(layers):
            self.layers.append(Layer(layer["weights"], layer["frozen"], layer["scale"], persistent=i % 2 == 0))
            if layer["tied"]:
                self.layers[i].g = self.layers[0].g
        self.register_buffer("count", count.clone())
        self.register_buffer("on", on.clone())


def built(models: list[dict]) -> nn.ModuleList:
    """The models that are described."""
    return nn.ModuleList(Stack(**model) for model in models)


def held(models: nn.ModuleList) -> list[Tensor]:
    """All parameters of all models, then all buffers."""
    return [*models.parameters(), *models.buffers()]


def loss(models: nn.ModuleList, step: dict, passed: Callable[[Tensor, int], Tensor] = lambda h, _: h) -> Tensor:
    """The loss of a step, through the layers of its ``route``, each ``10 * model + layer``; ``passed`` is called before each."""
    h = step["x"].detach().requires_grad_()
    for number in step["route"]:
        h = models[number // 10].layers[number % 10](passed(h, number))
    return h.square().sum()
