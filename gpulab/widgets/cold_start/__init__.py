"""A cold start in the reader's hand: sizes, tiers and chunks, what is waited for, and what each improvement would save."""

import anywidget
import traitlets

from gpulab.platforms import TIERS, Load, Timeline, Work, bandwidths, timeline
from gpulab.widgets._source import module, style

CHOICES = {
    "network": tuple(name for name in TIERS if name.startswith("network")),
    "drive": tuple(name for name in TIERS if name.startswith("NVMe")),
    "bus": tuple(name for name in TIERS if name.startswith("PCIe")),
    "origin": ("object store", "drive", "host memory"),
}
"""What is chosen by name; ``origin``: where the weights are when the start begins."""
VALUES = {
    "weights": (0.1, 0.5, 1, 2, 5, 14, 26, 60, 140, 280, 810),
    "image": (0.1, 0.5, 1, 2, 5, 10, 20, 40),
    "needed": (1, 5, 10, 20, 50, 100),
    "chunk": (0.01, 0.1, 0.5, 1, 4, 16, 0),
    "runtime": (0, 1, 2, 5, 10, 20, 40),
    "graphs": (0, 1, 2, 5, 10, 20, 40),
}
"""Where each slider stops: GB, GB, % of the image, GB (0: the whole file at once), seconds, seconds."""


class ColdStart(anywidget.AnyWidget):
    """Image, runtime, weights and graphs of one start.

    Args:
        network, drive, bus, origin: of :data:`CHOICES`. weights, image, needed, chunk, runtime, graphs: of :data:`VALUES`.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("cold_start")
    _css = style("cold_start")
    network = traitlets.Unicode().tag(sync=True)
    drive = traitlets.Unicode().tag(sync=True)
    bus = traitlets.Unicode().tag(sync=True)
    origin = traitlets.Unicode().tag(sync=True)
    weights = traitlets.Float().tag(sync=True)
    image = traitlets.Float().tag(sync=True)
    needed = traitlets.Int().tag(sync=True)
    chunk = traitlets.Float().tag(sync=True)
    runtime = traitlets.Int().tag(sync=True)
    graphs = traitlets.Int().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        network: str = "network, 25 Gb/s",
        drive: str = "NVMe, PCIe 4",
        bus: str = "PCIe 4 x16",
        origin: str = "object store",
        weights: float = 26,
        image: float = 10,
        needed: int = 100,
        chunk: float = 1,
        runtime: int = 5,
        graphs: int = 10,
    ):
        given = {
            "network": network,
            "drive": drive,
            "bus": bus,
            "origin": origin,
            "weights": weights,
            "image": image,
            "needed": needed,
            "chunk": chunk,
            "runtime": runtime,
            "graphs": graphs,
        }
        for name, choices in (CHOICES | VALUES).items():
            if given[name] not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {given[name]!r}")
        super().__init__(**given, known={"rates": bandwidths(), "choices": CHOICES, "values": VALUES})

    @property
    def path(self) -> tuple[str, ...]:
        """What the weights cross."""
        return (self.network, self.drive, self.bus)[CHOICES["origin"].index(self.origin) :]

    def timeline(self) -> Timeline:
        """The same start, as the library has it."""
        image = 1e9 * self.image
        plan = [
            Load("image", image, (self.network,), chunk=1e9 * self.chunk or None, needed=image * self.needed / 100),
            Work("runtime", self.runtime, ("image",)),
            Load("weights", 1e9 * self.weights, self.path, chunk=1e9 * self.chunk or None),
            Work("graphs", self.graphs, ("runtime", "weights")),
        ]
        return timeline(plan, bandwidths())
