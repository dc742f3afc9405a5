"""What a forward pass of a decoder computes and moves, and how long a card takes at least. Counted, not measured.

A pass is a list of chunks, one for each request: ``new`` tokens that are read now, behind ``cached`` ones whose keys
and values are held. A prompt is ``Chunk(0, n)``, a step of decoding ``Chunk(n, 1)``, a piece of a prompt anything between.

FLOP: a multiply-add is two. Counted are the linear layers of all layers for every new token, the head for one token of
each request, and of attention the two products of queries with keys and of scores with values, for the pairs that
the causal mask leaves. Not counted: softmax, rotary positions, norms, the MLP's activation, residuals, biases, sampling.

Bytes: between the chip and its memory. A linear layer reads its matrix once for the whole pass, reads its input and
writes its output, for every token; the outputs of ``k_proj`` and ``v_proj`` are what the cache gets. Attention is one
kernel for all tokens of a layer: it reads the queries, writes its output, and reads the keys and values of every request
once, cached and new, once for all heads that share them. Not counted: looking words up, what lies between these kernels.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpulab.cards.cards import Card
from gpulab.memory.shapes import Shape

ELEMENT_BYTES = 2
"""Of weights, activations, keys and values in a 16-bit format."""


class Chunk(NamedTuple):
    """Of one request: tokens whose keys and values are held already, and tokens that are read now. In tokens."""

    cached: int
    new: int


Pass = Sequence[Chunk]


def prefill(batch: int, tokens: int) -> list[Chunk]:
    """A batch of prompts of ``tokens`` each, read whole."""
    return [Chunk(0, tokens)] * batch


def decode(batch: int, tokens: int) -> list[Chunk]:
    """One new token for each of ``batch`` requests that hold ``tokens``: the new one is the next."""
    return [Chunk(tokens, 1)] * batch


@dataclass(frozen=True)
class Cost:
    """Floating-point operations, and bytes between the chip and its memory."""

    flops: int
    bytes: int

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes

    def bound(self, card: Card, fmt: str) -> str:
        """``memory`` or ``compute``: the roof that it meets first."""
        return "memory" if self.intensity < ridge(card, fmt) else "compute"

    def least_seconds(self, card: Card, fmt: str) -> float:
        """At the dense peak of number format ``fmt`` and the bandwidth of the datasheet, whichever takes longer."""
        return max(self.flops / card.flops_per_s[fmt], self.bytes / card.bytes_per_s)


def ridge(card: Card, fmt: str) -> float:
    """FLOP per byte at which the roofs of memory and of compute meet."""
    return card.flops_per_s[fmt] / card.bytes_per_s


def linear_flops(shape: Shape, tokens: int, read: int) -> int:
    """Of all layers for ``tokens``, and of the head for ``read`` of them."""
    sys.audit("gpulab.answers", "linear_flops")
    return 2 * (tokens * shape.layers * shape.layer_matrices + read * shape.embedding)


def linear_layers(shape: Shape, chunks: Pass, element_bytes: int = ELEMENT_BYTES) -> Cost:
    """The linear layers of all layers and the head, together."""
    sys.audit("gpulab.answers", "linear_layers")
    tokens, read = sum(chunk.new for chunk in chunks), len(chunks)
    matrices, ends = shape.layers * shape.layer_matrices, shape.layers * sum(map(sum, shape.products.values()))
    moved = matrices + shape.embedding + tokens * ends + read * (shape.width + shape.vocabulary)
    return Cost(linear_flops(shape, tokens, read), element_bytes * moved)


def pairs(cached: int, new: int) -> int:
    """Of a query with a key that the causal mask leaves: a new token looks at all cached ones and at the new up to itself."""
    return new * cached + new * (new + 1) // 2


def attention(shape: Shape, chunks: Pass, element_bytes: int = ELEMENT_BYTES) -> Cost:
    """Attention of all layers, together."""
    sys.audit("gpulab.answers", "attention")
    ends = sum(2 * new * shape.queries + 2 * (cached + new) * shape.keys for cached, new in chunks)
    return Cost(
        4 * shape.layers * shape.queries * sum(pairs(*chunk) for chunk in chunks), element_bytes * shape.layers * ends
    )


def parts(shape: Shape, chunks: Pass, element_bytes: int = ELEMENT_BYTES) -> dict[str, Cost]:
    """The two, by name."""
    return {
        "linear layers": linear_layers(shape, chunks, element_bytes),
        "attention": attention(shape, chunks, element_bytes),
    }


def least_seconds(shape: Shape, chunks: Pass, card: Card, fmt: str, element_bytes: int = ELEMENT_BYTES) -> float:
    """Of the whole pass: linear layers and attention take turns, so their least times add up. Launches are free."""
    return sum(work.least_seconds(card, fmt) for work in parts(shape, chunks, element_bytes).values())


def crossing_batch(shape: Shape, card: Card, fmt: str, element_bytes: int = ELEMENT_BYTES) -> int | None:
    """The smallest batch at which decode's linear layers are bound by compute; None where no batch is enough.

    Each token of the batch adds FLOPs, and its own activations: the intensity grows towards a limit.
    """
    weights, own = linear_layers(shape, [], element_bytes), linear_layers(shape, decode(1, 0), element_bytes)
    per_token = own.bytes - weights.bytes
    gained = own.flops - ridge(card, fmt) * per_token
    if gained <= 0:
        return None
    found = max(1, math.ceil(ridge(card, fmt) * weights.bytes / gained))
    return _first(
        lambda batch: linear_layers(shape, decode(batch, 0), element_bytes).bound(card, fmt) == "compute", found
    )


def _first(holds: Callable[[int], bool], near: int) -> int:
    """The first at which it holds, where it holds from there on; a division's rounding leaves ``near`` beside it."""
    while not holds(near):
        near += 1
    while near > 1 and holds(near - 1):
        near -= 1
    return near


def cached_bytes(shape: Shape, tokens: int, element_bytes: int = ELEMENT_BYTES) -> int:
    """Of the keys and values of so many tokens, in all layers."""
    sys.audit("gpulab.answers", "cached_bytes")
    return tokens * shape.cached * element_bytes
