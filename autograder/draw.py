"""Fresh inputs for hidden tests, drawn from a secret seed."""

import random
import secrets
from collections.abc import Sequence
from typing import TypeVar

import torch

T = TypeVar("T")


class Draw:
    """Random choices and tensors; two with the same seed draw the same."""

    def __init__(self, seed: int | None = None) -> None:
        seed = secrets.randbits(63) if seed is None else seed
        self._random = random.Random(seed)
        self._torch = torch.Generator().manual_seed(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` to ``high``, both included."""
        return self._random.randint(low, high)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self._random.sample(items, len(items))

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

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
