"""Prefill and decode under a card's roofs: which one each part of a forward pass meets, in the reader's hand."""

import anywidget
import traitlets

from gpulab.cards.cards import CARDS, card_named
from gpulab.memory.shapes import LLAMAS, SHAPES, Shape
from gpulab.serving import costs
from gpulab.widgets._source import module, style

FMT = "fp16"
"""Of weights, activations, keys and values: every card has its roof."""
BATCHES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 1024)
TOKENS = tuple(2**power for power in range(5, 16))
"""Of a prompt, or of what a request holds: 32 to 32768."""
PHASES = {"prefill": costs.prefill, "decode": costs.decode}


class PrefillDecode(anywidget.AnyWidget):
    """Linear layers and attention of one forward pass on the roofline, by ``gpulab.serving.costs``.

    Args:
        model: of ``gpulab.memory.shapes.LLAMAS``. card: key of one of ``gpulab.cuda.CARDS``. phase: of :data:`PHASES`.
        batch: requests, of :data:`BATCHES`. tokens: of each, of :data:`TOKENS`: of its prompt in prefill, in decode those that
            it holds before the new one.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("prefill_decode")
    _css = style("prefill_decode")
    model = traitlets.Unicode().tag(sync=True)
    card = traitlets.Unicode().tag(sync=True)
    phase = traitlets.Unicode().tag(sync=True)
    batch = traitlets.Int().tag(sync=True)
    tokens = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: str = "Llama 2 7B",
        card: str = "A100",
        phase: str = "decode",
        batch: int = 16,
        tokens: int = 1024,
    ):
        given = (
            ("model", model, LLAMAS),
            ("phase", phase, PHASES),
            ("batch", batch, BATCHES),
            ("tokens", tokens, TOKENS),
        )
        for name, value, choices in given:
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        super().__init__(
            model=model, card=card_named(card).key, phase=phase, batch=batch, tokens=tokens, known=_known()
        )

    def parts(self) -> dict[str, costs.Cost]:
        """The same pass by ``gpulab.serving.costs``: FLOP and bytes of the linear layers and of attention."""
        return costs.parts(SHAPES[self.model], PHASES[self.phase](self.batch, self.tokens))

    def crossing(self) -> int | None:
        """The smallest batch at which decode's linear layers are bound by compute."""
        return costs.crossing_batch(SHAPES[self.model], CARDS[self.card], FMT)

    def held(self) -> tuple[int, int]:
        """Bytes of the weights, and of the keys and values when the pass is over."""
        shape, chunks = SHAPES[self.model], PHASES[self.phase](self.batch, self.tokens)
        return costs.ELEMENT_BYTES * shape.parameters, costs.cached_bytes(shape, sum(map(sum, chunks)))


def _known() -> dict:
    """What the browser needs of Python's tables."""
    return {
        "models": {name: _widths(SHAPES[name]) for name in LLAMAS},
        "cards": {
            key: {
                "name": card.name,
                "bytes": card.memory_bytes,
                "bytes_per_s": card.bytes_per_s,
                "flops_per_s": card.flops_per_s[FMT],
            }
            for key, card in CARDS.items()
        },
        "element_bytes": costs.ELEMENT_BYTES,
        "batches": list(BATCHES),
        "tokens": list(TOKENS),
    }


def _widths(shape: Shape) -> dict:
    """``ends``: elements that go into the linear layers of one layer and come out of them, for a token."""
    names = ("layers", "heads", "kv_heads", "width", "vocabulary", "parameters")
    derived = ("queries", "keys", "cached", "layer_matrices", "embedding")
    return {**{name: getattr(shape, name) for name in names + derived}, "ends": sum(map(sum, shape.products.values()))}
