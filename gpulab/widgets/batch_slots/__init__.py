"""Batch slots over time under three policies, for the same requests: static, continuous and chunked batching."""

import anywidget
import traitlets

from gpulab.serving import Linear, Request
from gpulab.serving.schedulers.named import SCHEDULERS
from gpulab.widgets._source import module, style
from gpulab.widgets.batch_slots.played import Played, play

SLOTS = 4
CLOCK = Linear(step=10_000, token=200)
"""Microseconds of a step, and of each token in it: no card's."""
PROMPTS = (120, 40, 60, 200, 80, 160, 50, 90)
MEAN, PATTERN = 20, (-2, 14, -4, -3, -4, 4, -3, -2)
"""Output tokens: the mean, and what each request has more or less at each level of :data:`UNEQUAL`. The sum stays."""
VALUES = {
    "tokens": (16, 24, 32, 48, 64, 96, 128, 192, 256, 512),
    "unequal": (0, 1, 2, 3, 4),
    "spacing_ms": (0, 10, 20, 40, 60, 100, 200),
}
"""Where each slider stops: tokens of a step, levels, milliseconds from one arrival to the next."""


class BatchSlots(anywidget.AnyWidget):
    """Eight requests in four slots, played by each policy, with ``gpulab.serving.Linear`` for a clock.

    Args:
        tokens: that a step may compute. unequal: how far outputs differ. spacing_ms: between arrivals. Each is one of
            :data:`VALUES`. Policies that compute whole prompts get room for the longest, whatever ``tokens`` says.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("batch_slots")
    _css = style("batch_slots")
    tokens = traitlets.Int().tag(sync=True)
    unequal = traitlets.Int().tag(sync=True)
    spacing_ms = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(self, tokens: int = 64, unequal: int = 2, spacing_ms: int = 0):
        moved = {"tokens": tokens, "unequal": unequal, "spacing_ms": spacing_ms}
        for name, value in moved.items():
            if value not in VALUES[name]:
                raise ValueError(f"{name} is one of {', '.join(map(str, VALUES[name]))}, not {value!r}")
        super().__init__(**moved, known=_known())

    @property
    def requests(self) -> list[Request]:
        """Those that are played, called by their numbers."""
        lengths = zip(PROMPTS, PATTERN, strict=True)
        return [
            Request(str(number), 1000.0 * self.spacing_ms * number, prompt, MEAN + self.unequal * more)
            for number, (prompt, more) in enumerate(lengths)
        ]

    def play(self, policy: str) -> Played:
        """One of ``static``, ``continuous`` and ``chunked``, by gpulab.serving's engine."""
        return play(policy, self.requests, self.tokens, SLOTS, CLOCK)


def _known() -> dict:
    return {
        "policies": list(SCHEDULERS),
        "slots": SLOTS,
        "clock": {"step": CLOCK.step, "token": CLOCK.token},
        "prompts": list(PROMPTS),
        "mean": MEAN,
        "pattern": list(PATTERN),
        "values": {name: list(stops) for name, stops in VALUES.items()},
    }
