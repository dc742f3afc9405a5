"""Fresh inputs for hidden tests, drawn from a secret seed.

A property that some wrong solution turns on is a stratum: every run visits it (``permutation``,
``cover``, ``sizes``, ``around``, ``layouts``, ``values``). Chance decides only inside a stratum.
"""

import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch

from autograder.core.strata import LAYOUTS, laid_out, pairwise

T = TypeVar("T")


class Sampler:
    """Random choices and tensors, reproducible by seed."""

    def __init__(self, seed: int | None = None) -> None:
        seed = secrets.randbits(63) if seed is None else seed
        self._random = random.Random(seed)
        self._torch = torch.Generator("cpu").manual_seed(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def permutation(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def shuffled(self, *options: T) -> list[T]:
        """Every option once, in random order."""
        return self.permutation(options)

    def cover(self, **factors: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """Few combinations in which each two options of different factors meet at least once.

        The order of the combinations is random, and so is what is left open.
        """
        return pairwise(self._random, factors)

    def around(self, boundary: int) -> list[int]:
        """The boundary and both sides of it, in random order."""
        return self.shuffled(boundary - 1, boundary, boundary + 1)

    def sizes(self, unit: int, most: int) -> list[int]:
        """Lengths from 1 to ``most`` that a unit of work divides or not, in random order.

        1, both sides of ``unit``, several units, several and a part of one, and a prime.
        """
        if most < 4 * unit:
            raise ValueError(f"sizes up to {most} hold no four units of {unit}")
        several = self.integer(2, most // unit - 1)
        part = self.integer(1, unit - 1) if unit > 1 else 0
        prime = self.choice([n for n in range(most // 2, most + 1) if all(n % k for k in range(2, int(n**0.5) + 1))])
        return self.shuffled(
            *dict.fromkeys([1, max(unit - 1, 1), unit, unit + 1, several * unit, several * unit + part, prime])
        )

    def values(self, *shape: int, kind: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A tensor of one of ``KINDS``: what a maximum, a sum or a threshold can go wrong on.

        ``ties``: few distinct values, each many times, the extremes too. ``tiny`` and ``huge`` lie near the
        ends of the dtype's range (``huge`` where a sum of a few hundred still fits).
        """
        x = torch.rand(shape, generator=self._torch, dtype=torch.float64) + 0.5
        signs = torch.randint(2, shape, generator=self._torch) * 2 - 1
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        made = {
            "positive": lambda: x * 8,
            "negative": lambda: -x * 8,
            "mixed": lambda: x * 8 * signs,
            "ties": lambda: torch.randint(3, shape, generator=self._torch).double() - 1,
            "zeros": lambda: torch.zeros(shape, dtype=torch.float64),
            "tiny": lambda: x * signs * float(limits.tiny) * 4,
            "huge": lambda: x * signs * float(limits.max) / 1024,
        }
        if kind not in made:
            raise ValueError(f"no kind of values {kind!r}; there are {', '.join(made)}")
        return made[kind]().to(dtype)

    def layouts(self, x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """The values of ``x`` in every layout of ``LAYOUTS`` that its dimensions allow, in random order.

        ``x`` has one dimension or more.
        """
        for name in self.shuffled(*LAYOUTS):
            if (made := laid_out(x, name)) is not None:
                yield name, made

    def tensor(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Distinct values in random order, none of them 0, so that no mix-up looks right.

        8- and 16-bit integer types wrap around once their values run out.
        """
        count = 1
        for size in shape:
            count *= size
        values = torch.randperm(count, generator=self._torch) + 1
        if dtype.is_floating_point:
            values = (2 * values - 2 * (count // 2) - 1) / 16  # odd numerators: none is 0
        return values.to(dtype).reshape(shape)

    def within_one(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Distinct values from -1 to 1 in random order, none of them 0, with digits of their own where the dtype has room."""
        values = self.tensor(*shape, dtype=torch.float64)
        return (values / values.abs().max() if values.numel() else values).to(dtype)
