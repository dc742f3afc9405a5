"""What steps in mixed precision come to: the casts written out, on the host."""

from dataclasses import dataclass, field

import torch
from torch.nn.functional import cross_entropy, layer_norm, linear


@dataclass
class Steps:
    """``losses``, ``taken`` (steps so far) and ``scales``, each after every call; parameters and gradients at the end."""

    parameters: list[torch.Tensor]
    losses: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    gradients: list[torch.Tensor] = field(default_factory=list)


def start(inputs: dict) -> list[torch.Tensor]:
    """The parameters before the first step."""
    width = len(inputs["weights"][0])
    return [torch.ones(width), torch.zeros(width), *inputs["weights"]]


def reference(inputs: dict, products: torch.dtype | None = None, loss_in: torch.dtype = torch.float32) -> Steps:
    """The steps of a case; ``products`` and ``loss_in`` are the dtypes of products and loss where they are not the expected ones."""
    parameters = [value.clone().requires_grad_() for value in start(inputs)]
    trained = parameters[2:] if inputs["frozen"] else parameters
    slow, fast = (p for p in trained if p.ndim == 2), (p for p in trained if p.ndim == 1)
    rate = 2 * inputs["lr"] if inputs["groups"] else inputs["lr"]
    optimizer = torch.optim.SGD(
        [{"params": slow}, {"params": fast, "lr": rate}], lr=inputs["lr"], momentum=inputs["momentum"]
    )
    steps, dtype = Steps(parameters), getattr(torch, inputs["dtype"])
    scale, clean = (inputs["scale"], 0) if dtype == torch.float16 else (1.0, 0)
    for x, y, factor in zip(inputs["xs"], inputs["ys"], inputs["factors"]):
        loss = cross_entropy(_logits(parameters, x, products or dtype).to(loss_in), y).float()
        gradients = torch.autograd.grad(loss * scale, trained)
        for parameter, gradient in zip(trained, gradients):
            parameter.grad = gradient * (factor if parameter is parameters[-1] else 1.0) / scale
        finite = all(parameter.grad.isfinite().all() for parameter in trained)
        if inputs["max_norm"] is not None:
            torch.nn.utils.clip_grad_norm_(trained, inputs["max_norm"])
        if finite:
            optimizer.step()
        if dtype == torch.float16:
            scale, clean = _adapted(scale, clean, finite)
        steps.losses.append(loss.item())
        steps.taken.append((steps.taken or [0])[-1] + finite)
        steps.scales.append(scale)
    steps.gradients = [parameter.grad for parameter in trained]
    steps.parameters = [parameter.detach() for parameter in parameters]
    return steps


def rounding(inputs: dict) -> float:
    """How far 16 bits move the steps: of a parameter's way or a gradient, the largest part of its length.

    Against products in float32, and against a loss in 16 bits.
    """
    expected = _lengths(inputs, reference(inputs))
    others = (reference(inputs, products=torch.float32), reference(inputs, loss_in=getattr(torch, inputs["dtype"])))
    moved = [
        (found - right).norm() / right.norm()
        for other in others
        for found, right in zip(_lengths(inputs, other), expected)
    ]
    return max((float(one) for one in moved if one.isfinite()), default=0.0)


def _lengths(inputs: dict, steps: Steps) -> list[torch.Tensor]:
    """The way of each parameter, and the last gradients."""
    return [*(after - before for after, before in zip(steps.parameters, start(inputs))), *steps.gradients]


def _logits(parameters: list[torch.Tensor], x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    gain, offset, *matrices = parameters
    mix, mix_bias, head, head_bias = (value.to(dtype) for value in matrices)
    x = linear(layer_norm(x, gain.shape, gain, offset).to(dtype), mix, mix_bias)
    return linear((torch.softmax(x.float(), -1) * x).to(dtype), head, head_bias)


def _adapted(scale: float, clean: int, finite: bool) -> tuple[float, int]:
    """The next scale and how many clean steps stand behind it, of a scaler that grows after two."""
    if not finite:
        return scale / 2, 0
    return (scale * 2, 0) if clean == 1 else (scale, clean + 1)
