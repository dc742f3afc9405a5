"""A warm pool on a load, in the reader's hand: what is remembered, how much room is left, and what p99 and idle time become."""

from collections import deque

import anywidget
import traitlets

from gpulab.platforms import Replay, day, fixed, keeping, pulses, quiet_nights, replay, steady
from gpulab.platforms.pool import Decide
from gpulab.widgets._source import module, style

SETTLE = 300
SECONDS = 2100
LOADS = {
    "steady": steady(SECONDS, 0.8, 5),
    "day": day(SECONDS, 1.4, 5),
    "nights": quiet_nights(SECONDS, 1.3, 5, 400, 400),
    "pulses": pulses(SECONDS, 0.15, 5, every=86, size=8),
}
"""Requests in each second, by the name of the load."""
VALUES = {
    "memory": (1, 5, 15, 30, 60, 90, 120, 300, 900),
    "room": (0, 1, 2, 3, 5, 8),
    "cold": (1, 5, 10, 20, 40, 80),
    "service": (2, 4, 8, 16),
}
"""Where each slider stops: seconds, instances, seconds, seconds."""


class WarmPool(anywidget.AnyWidget):
    """A policy, the most at work in the last ``memory`` seconds and ``room`` more, on one of :data:`LOADS`.

    Args:
        load: of :data:`LOADS`. memory, room: the policy's. cold, service: seconds that a start and a request take. Each of
            :data:`VALUES`.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("warm_pool")
    _css = style("warm_pool")
    load = traitlets.Unicode().tag(sync=True)
    memory = traitlets.Int().tag(sync=True)
    room = traitlets.Int().tag(sync=True)
    cold = traitlets.Int().tag(sync=True)
    service = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(self, load: str = "pulses", memory: int = 30, room: int = 2, cold: int = 20, service: int = 8):
        given = {"load": load, "memory": memory, "room": room, "cold": cold, "service": service}
        for name, choices in {"load": tuple(LOADS), **VALUES}.items():
            if given[name] not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {given[name]!r}")
        super().__init__(**given, known={"loads": LOADS, "values": VALUES, "settle": SETTLE})

    def policy(self) -> Decide:
        last = deque(maxlen=self.memory)

        def decide(seen: dict) -> int:
            last.append(seen["busy"] + seen["waiting"])
            return max(last) + self.room

        return decide

    def played(self) -> Replay:
        """The policy's replay, as the library has it."""
        return replay(self.policy(), LOADS[self.load], self.cold, self.service, SETTLE)

    def in_hindsight(self) -> tuple[int, Replay]:
        """The smallest fixed pool in which 99 of 100 begin at once, and its replay."""
        size = keeping(LOADS[self.load], self.cold, self.service, 0, SETTLE)
        return size, replay(fixed(size), LOADS[self.load], self.cold, self.service, SETTLE)
