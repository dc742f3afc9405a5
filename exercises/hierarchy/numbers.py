"""Whole numbers whose sums are exact in float32, in any order, and in nothing narrower."""

import torch

from autograder.core.sampler import Sampler


def whole_numbers(sampler: Sampler, *shape: int, kind: str = "mixed") -> torch.Tensor:
    """float32, never 0. ``mixed``: from -8 to 8. ``large``: odd, 2049 to 5999. ``negative``: -8 to -1.

    A few thousand of the large ones have a sum below 2**24. float16 holds none of them, an int16 not two dozen.
    """
    chance = _chance(sampler)
    signs = {"mixed": 2 * torch.randint(2, shape, generator=chance) - 1, "negative": -1}
    if kind == "large":
        return _large(chance, 2999, shape)
    return (torch.randint(1, 9, shape, generator=chance) * signs[kind]).float()


def factors(sampler: Sampler, m: int, k: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two matrices: small numbers, and an odd one above 2048 in each row of the first and column of the second.

    The magnitudes of a sum's products add up to less than 2**24 for k up to 100.
    """
    a, b, chance = whole_numbers(sampler, m, k), whole_numbers(sampler, k, n), _chance(sampler)
    if k:
        a[torch.arange(m), torch.randint(k, (m,), generator=chance)] = _large(chance, 1499, (m,))
        b[torch.randint(k, (n,), generator=chance), torch.arange(n)] = _large(chance, 1499, (n,))
    return a, b


def _large(chance: torch.Generator, most: int, shape: tuple[int, ...]) -> torch.Tensor:
    return (2 * torch.randint(1024, most + 1, shape, generator=chance) + 1).float()


def _chance(sampler: Sampler) -> torch.Generator:
    return torch.Generator("cpu").manual_seed(sampler.integer(0, 2**62))
