"""Prefill and decode on shared cards, or in two pools with the KV cache sent between them, in the reader's hand."""

import anywidget
import traitlets

from gpulab.cards.links import LINKS
from gpulab.serving import Roofline
from gpulab.serving.costs import linear_flops
from gpulab.widgets._source import module, style
from gpulab.widgets.place_phases import placed
from gpulab.widgets.place_phases.placed import Load, Times, Transfer

MODELS = ("Llama 2 7B", "Llama 2 13B", "Llama 3.1 8B")
CARD_KEYS = ("A100", "H100", "H200")
CARDS = 8
"""In all."""
PORTS = ("Ethernet 10", "Ethernet 25", "RoCE 100", "InfiniBand HDR", "InfiniBand NDR", "InfiniBand XDR")
"""Of ``gpulab.cards.links``: 10 to 800 Gb/s, each card's own."""
VALUES = {
    "prompt": (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    "writes": (2, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    "rate": (0.25, 0.5, 1, 2, 4, 8, 12, 16, 24, 32, 64),
    "found": (0, 25, 50, 75, 90),
    "gbit": tuple(int(LINKS[port].printed) for port in PORTS),
    "budget": (128, 160, 256, 512, 1024, 2048, 8192),
}
"""Where each slider stops: tokens, tokens, requests a second, percent of the prompt, Gb/s, tokens of a step on shared cards."""


class PlacePhases(anywidget.AnyWidget):
    """Eight cards that share both phases, in chunks, or are split into two pools; by ``gpulab.serving.Roofline``.

    Args:
        model: of :data:`MODELS`. card: of :data:`CARD_KEYS`. prompt, writes: tokens of each request, rate: of them a second.
            found: percent of the prompt that lies in the cache. gbit: Gb/s of a card's link. budget: tokens of a step on shared
            cards. Each one of :data:`VALUES`.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("place_phases")
    _css = style("place_phases")
    model = traitlets.Unicode().tag(sync=True)
    card = traitlets.Unicode().tag(sync=True)
    prompt = traitlets.Int().tag(sync=True)
    writes = traitlets.Int().tag(sync=True)
    rate = traitlets.Float().tag(sync=True)
    found = traitlets.Int().tag(sync=True)
    gbit = traitlets.Int().tag(sync=True)
    budget = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: str = "Llama 2 7B",
        card: str = "A100",
        prompt: int = 2048,
        writes: int = 64,
        rate: float = 8,
        found: int = 0,
        gbit: int = 100,
        budget: int = 512,
    ):
        moved = {"prompt": prompt, "writes": writes, "rate": rate, "found": found, "gbit": gbit, "budget": budget}
        given = (
            ("model", model, MODELS),
            ("card", card, CARD_KEYS),
            *((name, moved[name], VALUES[name]) for name in VALUES),
        )
        for name, value, choices in given:
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        super().__init__(model=model, card=card, **moved, known=_known())

    @property
    def clock(self) -> Roofline:
        return Roofline(self.card, self.model)

    @property
    def load(self) -> Load:
        """What comes: all requests are alike."""
        return Load(self.prompt, self.prompt * self.found // 100, self.writes, self.rate, CARDS, self.budget)

    def shared(self) -> Times | None:
        """On all cards, in chunks; None where they cannot keep up."""
        return placed.shared(self.clock, self.load)

    def split(self) -> tuple[Times, Transfer] | None:
        """In two pools, with what the link leaves exposed; None where no split keeps up."""
        times = placed.split(self.clock, self.load)
        if times is None:
            return None
        sent = placed.transfer(
            self.clock, self.load, times, LINKS[PORTS[VALUES["gbit"].index(self.gbit)]].reached_bytes_per_s
        )
        return times._replace(exposed=sent.exposed), sent

    def break_even(self) -> float | None:
        """Gb/s as a maker prints them."""
        found = placed.break_even(self.clock, self.load, self.shared(), placed.split(self.clock, self.load))
        return None if found is None else found * 8 / 1e9 / LINKS[PORTS[0]].share


def _known() -> dict:
    """What the browser needs: the terms of each clock, microseconds a token and the like, and bytes a second of each link."""
    return {
        "models": list(MODELS),
        "cards": {key: {"name": Roofline(key, MODELS[0]).card.name} for key in CARD_KEYS},
        "clocks": {f"{card} {model}": _terms(Roofline(card, model)) for card in CARD_KEYS for model in MODELS},
        "links": {str(gbit): LINKS[port].reached_bytes_per_s for gbit, port in zip(VALUES["gbit"], PORTS, strict=True)},
        "share": LINKS[PORTS[0]].share,
        "count": CARDS,
        "most": placed.MOST,
        "values": {name: list(stops) for name, stops in VALUES.items()},
    }


def _terms(clock: Roofline) -> dict:
    """Microseconds: of a token's and of a reading of the head's arithmetic, of reading the weights, of a pair and of a token in
    attention, of what is elementwise for a token, and of a step's kernels."""
    shape, flops = clock.shape, clock.card.matrix_flops_per_s(clock.fmt)
    each = clock.parts_us([(1, 0)])
    return {
        "token": 1e6 * linear_flops(shape, 1, 0) / flops,
        "head": 1e6 * linear_flops(shape, 0, 1) / flops,
        "weights": each["linear"],
        "pair": 4e6 * shape.layers * shape.queries / flops,
        "kept": 1e6 * clock.kv_bytes / clock.card.sustained_bytes_per_s,
        "elementwise": each["elementwise"],
        "kernels": each["kernels"],
        "kv_bytes": clock.kv_bytes,
        "slots": clock.slots,
        "layers": shape.layers,
    }
