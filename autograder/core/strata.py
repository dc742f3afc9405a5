"""Pairwise combinations of factors, and tensor layouts of one set of values, for stratified sampling."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

LAYOUTS = ("contiguous", "offset", "stepped", "padded", "transposed", "channels_last")


def pairwise(chance: random.Random, factors: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Combinations of one option a factor in which any two options of two factors meet.

    Greedy: each combination takes the pairs that are still open, the widest factors first. Options are
    told apart by their places, so they need not be hashable.
    """
    names = sorted(factors, key=lambda name: -len(factors[name]))
    if len(names) == 1:
        yield from ({names[0]: option} for option in chance.sample(factors[names[0]], len(factors[names[0]])))
        return
    left = {
        frozenset(((a, i), (b, j)))
        for a, b in itertools.combinations(names, 2)
        for i, j in itertools.product(range(len(factors[a])), range(len(factors[b])))
    }
    while left:
        chosen = _next(chance, names, factors, left)
        left -= {frozenset(pair) for pair in itertools.combinations(chosen.items(), 2)}
        yield {name: factors[name][chosen[name]] for name in factors}


def _next(chance: random.Random, names: list[str], factors: Mapping, left: set[frozenset]) -> dict[str, int]:
    """A combination that begins with an open pair and goes on with what closes most."""
    chosen = dict(chance.choice(sorted(left, key=lambda pair: sorted(map(str, pair)))))
    for name in names:
        if name in chosen:
            continue
        places = chance.sample(range(len(factors[name])), len(factors[name]))
        chosen[name] = max(places, key=lambda i: sum(frozenset(((name, i), item)) in left for item in chosen.items()))
    return chosen


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor | None:
    """``x``'s values laid out otherwise in memory; None where its dimensions do not allow that."""
    if layout == "contiguous":
        return x.contiguous()
    if layout == "offset":
        whole = torch.cat([x.flatten()[:1].new_ones(3), x.flatten()])
        return whole[3:].view(x.shape)
    if layout == "stepped":
        return _within(x, (*x.shape[:-1], 2 * x.shape[-1]), (..., slice(None, None, 2)))
    if layout == "padded" and x.ndim > 1:
        return _within(x, (*x.shape[:-1], x.shape[-1] + 3), (..., slice(1, -2)))
    if layout == "transposed" and x.ndim > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "channels_last" and x.ndim == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return None


def _within(x: torch.Tensor, shape: tuple[int, ...], place: tuple) -> torch.Tensor:
    """``x`` as a part of something larger, whose other elements are ones."""
    whole = x.new_ones(shape)
    whole[place] = x
    return whole[place]
