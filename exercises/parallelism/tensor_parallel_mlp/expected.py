"""E16.1: what is due in every pass, computed with the whole layers in float64."""

from dataclasses import dataclass

import torch
from torch.nn.functional import gelu, linear

from autograder.core.exercise import Case

Tensor = torch.Tensor
LAYERS = ("up", "up_bias", "down", "down_bias")
Layers = list[Tensor | None]
"""The weight and the bias of the first layer and of the second, or what belongs to them."""


@dataclass(frozen=True)
class Played:
    """Of one pass. outs, of_x: for each x; biases: the last module's; grads: of each module's parameters, as they have added up.

    forward, backward: for each all-reduce what each rank hands in.
    """

    outs: list[Tensor]
    biases: list[Tensor | None]
    of_x: list[Tensor | None]
    grads: list[Layers]
    forward: list[list[Tensor]]
    backward: list[list[Tensor]]


def share_of(whole: Layers, rank: int, ranks: int) -> Layers:
    """A rank's part of the rows of the first layer and of the columns of the second."""

    def part(tensor: Tensor | None, dim: int) -> Tensor | None:
        return None if tensor is None else tensor.chunk(ranks, dim)[rank]

    return [part(whole[0], 0), part(whole[1], 0), part(whole[2], 1), whole[3]]


@torch.enable_grad()
def played(case: Case) -> list[Played]:
    """What is due of every pass of a case, in the dtype of its layers."""
    own = case.per_rank_inputs[0]
    wholes = [[spec[name] for name in LAYERS] for spec in own["specs"]]
    sums: list[Layers] = [[None] * 4 for _ in wholes]
    found = []
    for number, step in enumerate(own["passes"]):
        for which, values in enumerate(step["shares"]):
            if values is not None:
                theirs = [each["passes"][number]["shares"][which] for each in case.per_rank_inputs]
                wholes[which] = _joined(wholes[which], theirs)
                sums[which] = [None] * 4
        one = _played(step, wholes, sums, case.ranks)
        sums = list(one.grads)
        found.append(one)
    return found


def _joined(like: Layers, shares: list[list[Tensor]]) -> Layers:
    """Whole layers of all ranks' shares."""
    found: Layers = []
    by_place = iter(zip(*shares, strict=True))
    for place, tensor in enumerate(like):
        if tensor is None:
            found.append(None)
            continue
        parts = next(by_place)
        found.append(parts[0] if place == 3 else torch.cat(parts, 1 if place == 2 else 0))
    return found


def _played(step: dict, wholes: list[Layers], sums: list[Layers], ranks: int) -> Played:
    dtype = wholes[0][0].dtype
    leaves = [[None if t is None else t.detach().double().clone().requires_grad_() for t in whole] for whole in wholes]
    xs = [x.detach().double().clone().requires_grad_() for x in step["xs"]]
    calls: list[tuple[Tensor, Tensor, Layers]] = []
    outs = []
    for first in xs:
        x = first
        for which in step["chain"]:
            into, layers = x, leaves[which]
            out = linear(gelu(linear(into, layers[0], layers[1])), layers[2], layers[3])
            for tensor in (into, out):
                tensor.retain_grad()
            calls.append((into, out, layers))
            x = out
        outs.append(x + first if step["residual"] else x)
    if step["backward"]:
        torch.autograd.backward(outs, [grad.double() for grad in step["grads"]])
    forward = [_contributions(into, layers, ranks, dtype) for into, _, layers in calls]
    firsts = {id(x) for x in xs}
    reach = (
        [call for call in calls if step["input_requires_grad"] or id(call[0]) not in firsts] if step["backward"] else []
    )
    backward = [_ways_back(into, out, layers, ranks, dtype) for into, out, layers in reach]
    with_x = step["backward"] and step["input_requires_grad"]
    last = leaves[step["chain"][-1]][3]
    return Played(
        [out.detach().to(dtype) for out in outs],
        [None if last is None else last.detach().to(dtype)] * len(outs),
        [x.grad.to(dtype) if with_x else None for x in xs],
        [_added(of, own, dtype) for of, own in zip(sums, leaves, strict=True)],
        forward,
        backward,
    )


def _added(sums: Layers, leaves: Layers, dtype: torch.dtype) -> Layers:
    def added(total: Tensor | None, leaf: Tensor | None) -> Tensor | None:
        if leaf is None or leaf.grad is None:
            return total
        return leaf.grad.to(dtype) if total is None else total + leaf.grad.to(dtype)

    return [added(total, leaf) for total, leaf in zip(sums, leaves, strict=True)]


def _contribution(into: Tensor, layers: Layers, rank: int, ranks: int) -> Tensor:
    up, up_bias, down, _ = share_of(layers, rank, ranks)
    return linear(gelu(linear(into, up, up_bias)), down)


def _contributions(into: Tensor, layers: Layers, ranks: int, dtype: torch.dtype) -> list[Tensor]:
    with torch.no_grad():
        return [_contribution(into, layers, rank, ranks).to(dtype) for rank in range(ranks)]


def _ways_back(into: Tensor, out: Tensor, layers: Layers, ranks: int, dtype: torch.dtype) -> list[Tensor]:
    found = []
    for rank in range(ranks):
        x = into.detach().requires_grad_()
        (grad,) = torch.autograd.grad(_contribution(x, layers, rank, ranks), x, out.grad)
        found.append(grad.to(dtype))
    return found
