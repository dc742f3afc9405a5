"""Attention over a cache in blocks: the place for one of your own."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Span(NamedTuple):
    """One request's part of a step. first, new: its rows among the step's tokens. context: tokens before them, in the cache.
    table: int64, the blocks that its tokens lie in, in their order. prefix: so many of its first tokens see each other, all
    of them; 0 where every token sees those before it and itself."""

    first: int
    new: int
    context: int
    table: Tensor
    prefix: int = 0


class Attention(Protocol):
    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor, spans: Sequence[Span]) -> Tensor:
        """(tokens, heads, head_dim), of all requests of a step, one after the other.

        queries: the same shape. keys, values: the whole cache of this layer, (blocks, size, kv_heads, head_dim); those of
        the new tokens are in it. A token looks at the tokens of its own request up to itself, and at its span's prefix.
        """
        ...


def one_by_one(queries: Tensor, keys: Tensor, values: Tensor, spans: Sequence[Span]) -> Tensor:
    """Every request by itself: gather its blocks, then PyTorch's attention. The plain way, and a copy of the cache."""
    return torch.cat([_of_one(queries, keys, values, span) for span in spans])


def _of_one(queries: Tensor, keys: Tensor, values: Tensor, span: Span) -> Tensor:
    end = span.context + span.new
    mine, theirs = queries[span.first : span.first + span.new], keys[span.table].flatten(0, 1)[:end]
    place = torch.arange(end, device=queries.device)
    sees = (place[None, :] <= place[span.context :, None]) | (place < span.prefix)
    y = F.scaled_dot_product_attention(
        mine.transpose(0, 1)[None],
        theirs.transpose(0, 1)[None],
        values[span.table].flatten(0, 1)[:end].transpose(0, 1)[None],
        attn_mask=sees,
        enable_gqa=True,
    )
    return y[0].transpose(0, 1)
