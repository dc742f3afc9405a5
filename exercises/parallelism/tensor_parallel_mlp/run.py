"""E16.1 tensor_parallel_mlp: shares of MLPs in every rank, written to and called."""

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Split MLPs, look at the shares, and go through the passes, with a barrier before, within and after each."""

    def in_rank(rank: int, world: int) -> dict:
        own = own_inputs()
        answers = [
            outcome(lambda spec=spec: _emptied(learner.tensor_parallel_mlp(*_linears(spec)))) for spec in own["refused"]
        ]
        layers = [_linears(spec) for spec in own["specs"]]
        parts = [_module(learner.tensor_parallel_mlp(*pair)) for pair in layers]
        shares = [[_described(p) for p in part.parameters()] for part in parts]
        kept = [[p.detach().clone() for layer in pair for p in layer.parameters()] for pair in layers]
        _forget(layers)
        passes = [_pass(parts, step) for step in own["passes"]]
        return {"answers": answers, "shares": shares, "kept": kept, "passes": passes}

    return in_ranks(in_rank, case["world"])


def _pass(parts: list[nn.Module], step: dict) -> dict:
    """Write new shares, where there are, call the chain of modules with each x, and go back once from all that came out."""
    for part, values in zip(parts, step["shares"], strict=True):
        _write(part, values)
    xs = [x.requires_grad_(step["input_requires_grad"]) for x in step["xs"]]
    dist.barrier()
    with torch.set_grad_enabled(step["backward"]):
        outs = [_through(parts, step["chain"], x, step["residual"]) for x in xs]
    dist.barrier()
    if step["backward"]:
        torch.autograd.backward(outs, step["grads"])
    dist.barrier()
    grads = [[None if p.grad is None else p.grad.clone() for p in part.parameters()] for part in parts]
    return {
        "outs": [_plain(out) for out in outs],
        "of_x": [None if x.grad is None else x.grad.clone() for x in xs],
        "grads": grads,
    }


def _through(parts: list[nn.Module], chain: list[int], x: torch.Tensor, residual: bool) -> torch.Tensor:
    out = x
    for number in chain:
        out = parts[number](out)
    return x + out if residual else out


def _plain(out: object) -> torch.Tensor:
    """Raises TypeError for anything that may still come to its values."""
    if type(out) is not torch.Tensor:
        raise TypeError(f"the module returned {type(out).__name__}; expected a tensor")
    return out.detach().clone()


def _write(part: nn.Module, values: list | None) -> None:
    """As an optimizer or a checkpoint does; what there is in gradients is forgotten with it."""
    parameters = list(part.parameters())
    if values is None or len(values) != len(parameters):
        return
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = None
        if parameter.shape == value.shape:
            parameter.detach().copy_(value)


def _described(parameter: nn.Parameter) -> dict:
    return {
        "value": parameter.detach().clone(),
        "held": parameter.untyped_storage().nbytes(),
        "at": parameter.untyped_storage().data_ptr(),
        "trained": parameter.requires_grad,
    }


def _forget(layers: list[tuple[nn.Linear, nn.Linear]]) -> None:
    for layer in (layer for pair in layers for layer in pair):
        for parameter in layer.parameters():
            parameter.detach().zero_()


def _linears(spec: dict) -> tuple[nn.Linear, nn.Linear]:
    return _linear(spec["up"], spec["up_bias"]), _linear(spec["down"], spec["down_bias"])


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    layer.weight.detach().copy_(weight)
    if bias is not None:
        layer.bias.detach().copy_(bias)
    return layer


def _module(value: object) -> nn.Module:
    if not isinstance(value, nn.Module):
        raise TypeError(f"tensor_parallel_mlp returned {type(value).__name__}; expected an nn.Module")
    return value


def _emptied(value: object) -> None:
    """What is returned by mistake need not cross."""
