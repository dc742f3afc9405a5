"""Queries, caches and tables, drawn; and what attention over them is due to give."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch

from autograder.core.sampler import Sampler


@dataclass
class Paged:
    """The five inputs of a decode step."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor

    def inputs(self) -> dict[str, torch.Tensor]:
        return {name: getattr(self, name) for name in [field.name for field in fields(self)]}

    def but(self, **changed: torch.Tensor) -> "Paged":
        return replace(self, **changed)

    def places(self, sequence: int) -> Iterator[tuple[int, int]]:
        """Block and slot of each token of a sequence, in order."""
        size = self.k_cache.shape[1]
        for token in range(int(self.lengths[sequence])):
            yield int(self.tables[sequence, token // size]), token % size

    def laid_out(self, layout: str) -> "Paged":
        """The same step, its tensors parts of others, or in another order in memory. What lies between is NaN, or no block."""
        (batch, heads, dim), (blocks, size, kv_heads, _) = self.q.shape, self.k_cache.shape
        tables = _put(self.tables, self.tables.new_full((batch, self.tables.shape[1] + 3), 77_777)[:, 1:-2])
        if layout == "one allocation":
            both = self.k_cache.new_full((blocks, 2, size, kv_heads, dim), float("nan"))
            queries = self.q.new_full((batch, heads + 2 * kv_heads, dim), float("nan"))[:, :heads]
            k_cache, v_cache = _put(self.k_cache, both[:, 0]), _put(self.v_cache, both[:, 1])
            return Paged(_put(self.q, queries), k_cache, v_cache, tables, self.lengths)
        turned, straight = (self.k_cache, self.v_cache)[:: 1 if layout == "heads before tokens" else -1]
        by_heads = _put(turned, turned.new_empty(blocks, kv_heads, size, dim).transpose(1, 2))
        padded = _put(
            straight, straight.new_full((blocks, size + 1, kv_heads, dim + 3), float("nan"))[:, :size, :, 1:-2]
        )
        queries = _put(self.q, self.q.new_empty(heads, batch, dim).transpose(0, 1))
        k_cache, v_cache = (by_heads, padded) if turned is self.k_cache else (padded, by_heads)
        return Paged(queries, k_cache, v_cache, tables, self.lengths)


def _put(values: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    return room.copy_(values)


def paged(
    sampler: Sampler,
    dtype: torch.dtype,
    lengths: list[int],
    size: int,
    heads: int,
    kv_heads: int,
    dim: int,
    more: int = 0,
    spare: int = 2,
    shared: bool = False,
) -> Paged:
    """A step of sequences with ``lengths`` tokens, in blocks drawn by lot; NaN wherever no token lies.

    more: columns of the tables beyond the longest sequence. spare: blocks of nobody. shared: the second sequence begins
    with the first block of the first, which must be full.
    """
    counts = [-(-length // size) for length in lengths]
    q = (2 * sampler.within_one(len(lengths), heads, dim, dtype=torch.float64)).to(dtype)
    tables = _garbage(sampler, len(lengths), max(counts, default=0) + more)
    blocks = sum(counts) + spare
    numbers = sampler.permutation(range(blocks))
    k_cache, v_cache = (torch.full((blocks, size, kv_heads, dim), float("nan"), dtype=dtype) for _ in range(2))
    step = Paged(q, k_cache, v_cache, tables, torch.tensor(lengths, dtype=torch.int32))
    for row, count in enumerate(counts):
        tables[row, :count] = torch.tensor([numbers.pop() for _ in range(count)], dtype=torch.int32)
    if shared:
        tables[1, 0] = tables[0, 0]
    for row in range(len(lengths)):
        for block, slot in step.places(row):
            k_cache[block, slot] = (2 * sampler.within_one(kv_heads, dim, dtype=torch.float64)).to(dtype)
            v_cache[block, slot] = sampler.within_one(kv_heads, dim, dtype=torch.float64).to(dtype)
    return step


def _garbage(sampler: Sampler, batch: int, most: int) -> torch.Tensor:
    """Tables of numbers that are no block of anybody, or of others."""
    kinds = itertools.cycle(sampler.shuffled(-1, 2**31 - 1, 10_000, 0, 1, -(2**31)))
    numbers = torch.empty(batch, most, dtype=torch.int32)
    for row, column in itertools.product(range(batch), range(most)):
        numbers[row, column] = next(kinds)
    return numbers


def attended(inputs: dict) -> torch.Tensor:
    """What is due, float64, in the shape of q: each sequence's tokens gathered, one head after another."""
    q, (size, kv_heads) = inputs["q"].double(), inputs["k_cache"].shape[1:3]
    expected, group = torch.zeros(q.shape, dtype=torch.float64), max(1, q.shape[1] // kv_heads)
    for row, length in enumerate(inputs["lengths"].tolist()):
        places = [(int(inputs["tables"][row, token // size]), token % size) for token in range(length)]
        for head in range(q.shape[1] if length else 0):
            k, v = (
                torch.stack([inputs[name][block, slot, head // group] for block, slot in places]).double()
                for name in ("k_cache", "v_cache")
            )
            expected[row, head] = torch.softmax(k @ q[row, head] / q.shape[2] ** 0.5, 0) @ v
    return expected


def kv_bytes(inputs: dict) -> int:
    """Of the keys and values of all tokens, each once for each key head and sequence."""
    _, _, kv_heads, dim = inputs["k_cache"].shape
    return 2 * int(inputs["lengths"].sum()) * kv_heads * dim * inputs["k_cache"].element_size()


def table_bytes(inputs: dict) -> int:
    """Of the columns up to each sequence's last block."""
    size = inputs["k_cache"].shape[1]
    return inputs["tables"].element_size() * sum(-(-length // size) for length in inputs["lengths"].tolist())
