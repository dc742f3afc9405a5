"""A step's time from a card's peaks and a model's shape: no tensors, no queue, no Python."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from gpulab.cards import constants as assumed
from gpulab.cards.cards import Card, card_named
from gpulab.collectives.network import Network
from gpulab.memory.shapes import SHAPES, Shape
from gpulab.serving.costs import linear_flops, pairs

if TYPE_CHECKING:
    from gpulab.serving.report import Report

BYTES = {"fp16": 2, "bf16": 2}
LAYER_KERNELS = (
    "norm",
    "q, k and v",
    "rotary",
    "write cache",
    "attention",
    "output",
    "norm",
    "gate and up",
    "gate x up",
    "down",
)
"""Of one layer; assumed, as an engine with fused kernels runs them, replayed from a CUDA graph."""
SYSTEMS = {"A100": "DGX A100", "H100": "DGX H100", "H200": "DGX H100"}
"""The machine whose links connect several of a card."""
CACHE_SHARE = 0.92
"""Of the memory, what weights and cache may take: ``gpu_memory_utilization`` of vLLM 0.33.0 (``vllm/config/cache.py``)."""


class Roofline:
    """Step times of a published model, in 16-bit weights and cache, on one card or tensor-parallel on several.

    card: a name of ``gpulab.cards``. model: a name of ``gpulab.memory.SHAPES`` or a Shape. fmt: "fp16" or "bf16".
    cards: share every layer evenly, as Megatron does, with two all-reduces a layer. Everything is the sum of

    - ``linear``: the matrix products, the longer of computing them and of reading the weights once for the whole step;
    - ``attention``: of each request, the longer of its products and of reading its keys and values;
    - ``elementwise``: what norms, rotary positions, the cache's writes and the gate read and write;
    - ``all-reduce``: between several cards, by ``gpulab.collectives.network``;
    - ``kernels``: ten kernels a layer, with the time of a kernel that does nothing each.

    Peaks are ``Card.matrix_flops_per_s`` and ``Card.sustained_bytes_per_s``. Left out, so that the engine is faster here
    than a real one: the host's scheduling, sampling, products that fill the card badly, attention kernels below their peak.
    Raises ValueError for a model, a format or cards that are not there, and for weights that do not fit.
    """

    def __init__(self, card: str | Card, model: str | Shape, fmt: str = "fp16", cards: int = 1) -> None:
        self.card = card_named(card) if isinstance(card, str) else card
        if isinstance(model, str) and model not in SHAPES:
            raise ValueError(f"no model is called {model!r}: choose one of {', '.join(SHAPES)}")
        if fmt not in BYTES or (cards > 1 and self.card.key not in SYSTEMS):
            said = f"formats are {', '.join(BYTES)}, several only {', '.join(SYSTEMS)}"
            raise ValueError(f"{fmt!r} on {cards} {self.card.key}: {said}")
        self.shape, self.fmt, self.cards = SHAPES[model] if isinstance(model, str) else model, fmt, cards
        s, self._each = self.shape, BYTES[fmt]
        self._matrices = s.layers * s.layer_matrices
        self._head = s.vocabulary * s.width
        self._flops, self._rate = cards * self.card.matrix_flops_per_s(fmt), cards * self.card.sustained_bytes_per_s
        self._moved = s.layers * self._each * (8 * s.width + 2 * (s.queries + s.keys) + 4 * s.keys + 3 * s.hidden)
        self._network = Network.of(SYSTEMS[self.card.key]) if cards > 1 else None
        self._all_reduce_us = lru_cache(maxsize=None)(self._all_reduce_us)
        if self.slots < 1:
            raise ValueError(
                f"{s.parameters * self._each / 1e9:.0f} GB of weights leave no room on {cards} {self.card.key}"
            )

    @property
    def kv_bytes(self) -> int:
        """Of one token's keys and values, in all layers, on all cards together."""
        return 2 * self.shape.keys * self.shape.layers * self._each

    @property
    def slots(self) -> int:
        """Tokens that the cache has room for: ``CACHE_SHARE`` of the cards' memory, less the weights. What a step's
        activations take is not counted."""
        room = CACHE_SHARE * self.cards * self.card.memory_bytes - self.shape.parameters * self._each
        return int(room // self.kv_bytes)

    def step_us(self, work: Sequence[tuple[int, int]]) -> float:
        """Microseconds. work: (new tokens, context tokens) of every request."""
        return sum(self.parts_us(work).values())

    def parts_us(self, work: Sequence[tuple[int, int]]) -> dict[str, float]:
        """The terms of the sum, in microseconds."""
        tokens = sum(new for new, _ in work)
        s = self.shape
        weights = self._each * (self._matrices + self._head)
        return {
            "linear": 1e6 * max(linear_flops(s, tokens, len(work)) / self._flops, weights / self._rate),
            "attention": self._attention_us(work),
            "elementwise": 1e6 * self._moved * tokens / self._rate,
            "all-reduce": 2 * s.layers * self._all_reduce_us(tokens * s.width * self._each),
            "kernels": s.layers * len(LAYER_KERNELS) * assumed.KERNEL_FLOOR_US,
        }

    def linear_mfu(self, report: "Report") -> float:
        """Of the cards' peak FLOP/s, as printed, the share that the matrix products of a run's weights come to, from its
        first arrival to its end. Attention's products are left out."""
        tokens, told = sum(step.tokens for step in report.steps), sum(outcome.told for outcome in report.outcomes)
        peak = self.cards * self.card.flops_per_s[self.fmt]
        return linear_flops(self.shape, tokens, told) / peak / (report.makespan_us / 1e6)

    def _attention_us(self, work: Sequence[tuple[int, int]]) -> float:
        """Two products of 2 x head_dim for each head and pair."""
        product = 4e6 * self.shape.layers * self.shape.queries / self._flops
        read = 1e6 * self.kv_bytes / self._rate
        return sum(max(product * pairs(context, new), read * (context + new)) for new, context in work)

    def _all_reduce_us(self, nbytes: int) -> float:
        return self._network.duration_us("all_reduce", nbytes, self.cards) if self._network else 0.0
