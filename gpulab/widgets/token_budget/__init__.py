"""The tokens of a multimodal request and what their keys and values take of a card, in the reader's hand."""

import anywidget
import traitlets

from gpulab.cards.cards import CARDS, card_named
from gpulab.memory.shapes import LLAMAS, SHAPES
from gpulab.serving.costs import ELEMENT_BYTES, cached_bytes
from gpulab.serving.tokens import Contents
from gpulab.widgets._source import module, style

CACHES = {"16 bits": 2, "8 bits": 1}
"""Bytes of an element of the keys and values."""
VALUES = {
    "text": (0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    "images": (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    "height": (112, 168, 224, 256, 280, 336, 384, 448, 480, 512, 672, 720, 896, 1080, 1344, 2160),
    "width": (112, 168, 224, 256, 280, 336, 384, 448, 480, 512, 640, 672, 896, 1280, 1344, 1920, 3840),
    "patch": (8, 14, 16, 28, 32),
    "merge": (1, 2, 3, 4),
    "frames_per_s": (0.25, 0.5, 1, 2, 4, 8, 15, 30),
    "seconds": (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
}
"""Where each slider stops: tokens, images, pixels, pixels, pixels, patches, frames a second, seconds."""


class TokenBudget(anywidget.AnyWidget):
    """A request of text, images and video against the memory that a model's weights leave of a card.

    Args:
        model: of ``gpulab.memory.shapes.LLAMAS``. card: key of one of ``gpulab.cuda.CARDS``. cache: of :data:`CACHES`.
        text, images, height, width, patch, merge, frames_per_s, seconds: as of ``gpulab.serving.tokens.Contents``, each one of
            :data:`VALUES`. Frames are as large as images.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("token_budget")
    _css = style("token_budget")
    model = traitlets.Unicode().tag(sync=True)
    card = traitlets.Unicode().tag(sync=True)
    cache = traitlets.Unicode().tag(sync=True)
    text = traitlets.Int().tag(sync=True)
    images = traitlets.Int().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    patch = traitlets.Int().tag(sync=True)
    merge = traitlets.Int().tag(sync=True)
    frames_per_s = traitlets.Float().tag(sync=True)
    seconds = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: str = "Llama 2 7B",
        card: str = "RTX4090",
        cache: str = "16 bits",
        text: int = 64,
        images: int = 2,
        height: int = 224,
        width: int = 224,
        patch: int = 14,
        merge: int = 1,
        frames_per_s: float = 1,
        seconds: int = 10,
    ):
        moved = {
            "text": text,
            "images": images,
            "height": height,
            "width": width,
            "patch": patch,
            "merge": merge,
            "frames_per_s": frames_per_s,
            "seconds": seconds,
        }
        given = (
            ("model", model, LLAMAS),
            ("cache", cache, CACHES),
            *((name, moved[name], VALUES[name]) for name in VALUES),
        )
        for name, value, choices in given:
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        super().__init__(model=model, card=card_named(card).key, cache=cache, **moved, known=_known())

    @property
    def request(self) -> Contents:
        """The same request, whose tokens Python counts."""
        return Contents(**{name: getattr(self, name) for name in VALUES})

    def cached(self) -> int:
        """Bytes of the request's keys and values, in all layers."""
        return cached_bytes(SHAPES[self.model], sum(self.request.tokens.values()), CACHES[self.cache])

    def left(self) -> int:
        """Bytes of the card's memory beside the weights, in 16 bits; below 0 where those do not fit."""
        return CARDS[self.card].memory_bytes - ELEMENT_BYTES * SHAPES[self.model].parameters

    def fitting(self) -> int | None:
        """Such requests that have room at once; None for a request without tokens."""
        return max(0, self.left()) // self.cached() if self.cached() else None


def _known() -> dict:
    """What the browser needs of Python's tables. Of a model: bytes of its weights, elements of a token's keys and values."""
    return {
        "models": {name: _widths(name) for name in LLAMAS},
        "cards": {key: {"name": card.name, "bytes": card.memory_bytes} for key, card in CARDS.items()},
        "caches": CACHES,
        "values": {name: list(stops) for name, stops in VALUES.items()},
    }


def _widths(name: str) -> dict:
    shape = SHAPES[name]
    widths = {key: getattr(shape, key) for key in ("layers", "heads", "kv_heads", "head_dim", "cached")}
    return {**widths, "weights": ELEMENT_BYTES * shape.parameters}
