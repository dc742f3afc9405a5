"""Collectives step by step: which rank sends which chunk, what everybody holds then, and how long it takes on a link."""

import anywidget
import traitlets

from gpulab.cards.links import LINKS
from gpulab.collectives.network.protocols import SIMPLE
from gpulab.widgets._source import module, style

WAYS = {
    "all_reduce ring": "all-reduce, ring",
    "reduce_scatter ring": "reduce-scatter, ring",
    "all_gather ring": "all-gather, ring",
    "all_reduce root": "all-reduce through rank 0",
    "all_reduce doubling": "all-reduce, whole buffers to partners",
}
CHOICES = ("NVLink 4", "NVLink 5", "PCIe 5", "InfiniBand NDR", "RoCE 100", "Ethernet 10")


class RingStepper(anywidget.AnyWidget):
    """A collective of a few ranks in steps, with its bytes and its time on a link of the reader's choice.

    Args:
        way: a key of ``WAYS``. ranks: 2 to 8. size: exponent of two of the bytes, 10 to 33.
        link: one of ``CHOICES``, each rank's own. step: steps that are done at first.

    Raises:
        ValueError: for what the controls cannot hold.
    """

    _esm = module("ring_stepper")
    _css = style("ring_stepper")
    way = traitlets.Unicode().tag(sync=True)
    ranks = traitlets.Int().tag(sync=True)
    size = traitlets.Int().tag(sync=True)
    link = traitlets.Unicode().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    ways = traitlets.Dict().tag(sync=True)
    links = traitlets.Dict().tag(sync=True)

    def __init__(
        self, way: str = "all_reduce ring", ranks: int = 4, size: int = 28, link: str = "NVLink 4", step: int = 0
    ):
        for name, value, low, high in (("ranks", ranks, 2, 8), ("size", size, 10, 33), ("step", step, 0, 14)):
            if not low <= value <= high:
                raise ValueError(f"{name} is from {low} to {high}, not {value}")
        if way not in WAYS or link not in CHOICES:
            raise ValueError(f"choose one of {', '.join(WAYS)} and one of {', '.join(CHOICES)}, not {way!r}, {link!r}")
        super().__init__(
            way=way,
            ranks=ranks,
            size=size,
            link=link,
            step=step,
            ways=WAYS,
            links={
                key: {
                    "bytes_per_s": LINKS[key].reached_bytes_per_s,
                    "hop_us": SIMPLE.hop("ring", LINKS[key]),
                }
                for key in CHOICES
            },
        )
