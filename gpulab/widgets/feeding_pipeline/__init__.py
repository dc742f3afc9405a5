"""A loader's stages in the reader's hand: workers, cores, where decoding runs, and which stage limits the device."""

import anywidget
import traitlets

from gpulab.feeding import PLACES, Loader, Stages, Work, placed
from gpulab.widgets._source import module, style

PACKED = 10.0
"""So many times fewer bytes are sent where they are sent encoded."""
BATCHES, UNEVEN_EVERY = 128, 8
"""What is simulated, and which batches of it are slow: the last of so many."""
_MS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 120, 150, 200, 250, 300, 400)
VALUES = {
    "workers": (*range(17), 20, 24, 32), "prefetch": (1, 2, 3, 4, 6, 8, 12, 16), "cores": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
    "fetch": _MS, "decode": _MS, "augment": _MS, "collate": _MS, "pin": _MS, "transfer": _MS, "step": _MS[1:],
    "uneven": (1, 2, 3, 4, 6, 8), "parse": (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100), "faster": (1, 2, 5, 10, 20, 50, 100),
}  # fmt: skip
"""Where each slider stops: counts, milliseconds a batch, times, per cent, cores."""


class FeedingPipeline(anywidget.AnyWidget):
    """A loop over a loader, simulated by ``gpulab.feeding``; the reader moves stages, workers and the place of decoding.

    Args:
        workers, prefetch, cores: as of :class:`gpulab.feeding.Loader`. fetch, decode, augment, collate, pin, transfer,
            step: milliseconds that a batch takes where a core does all of it. uneven: how many times longer fetching
            and decoding take for one batch in eight. place: of :data:`gpulab.feeding.PLACES`. parse: per cent of decoding
            that a core keeps in a mixed decode. faster: how many cores the device replaces at decoding and augmentation.
            overlap: whether the copy to the device runs beside the step.

    Raises:
        ValueError: for what the controls cannot hold.
    """

    _esm = module("feeding_pipeline")
    _css = style("feeding_pipeline")
    workers, prefetch, cores, fetch, decode, augment, collate, pin, transfer, step, uneven, parse, faster = (
        traitlets.Int().tag(sync=True) for _ in VALUES
    )
    place = traitlets.Unicode().tag(sync=True)
    overlap = traitlets.Bool().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        workers: int = 2,
        prefetch: int = 2,
        cores: int = 8,
        fetch: int = 20,
        decode: int = 60,
        augment: int = 20,
        collate: int = 2,
        pin: int = 2,
        transfer: int = 4,
        step: int = 25,
        uneven: int = 1,
        parse: int = 50,
        faster: int = 20,
        place: str = PLACES[0],
        overlap: bool = True,
    ):
        given = locals()
        moved = {name: given[name] for name in VALUES}
        for name, value in moved.items():
            if value not in VALUES[name]:
                raise ValueError(f"{name} is one of {', '.join(map(str, VALUES[name]))}, not {value!r}")
        if place not in PLACES:
            raise ValueError(f"place is one of {', '.join(PLACES)}, not {place!r}")
        super().__init__(**moved, place=place, overlap=overlap, known=_known())

    @property
    def loader(self) -> Loader:
        """The loader that Python simulates."""
        return Loader(self.workers, self.prefetch, self.cores, self.overlap)

    @property
    def stages(self) -> Stages:
        """What an ordinary batch takes, with decoding where it is placed."""
        whole = {
            name: float(getattr(self, name))
            for name in ("fetch", "decode", "augment", "collate", "pin", "transfer", "step")
        }
        return placed(Work(**whole, parse=self.parse / 100, packed=PACKED, faster=float(self.faster)), self.place)

    def batches(self) -> list[Stages]:
        """All that are simulated, slow ones among them."""
        usual = self.stages
        slow = Stages(usual.fetch * self.uneven, usual.decode * self.uneven, *list(vars(usual).values())[2:])
        return [slow if number % UNEVEN_EVERY == UNEVEN_EVERY - 1 else usual for number in range(BATCHES)]


def _known() -> dict:
    values = {name: list(stops) for name, stops in VALUES.items()}
    return {"values": values, "places": list(PLACES), "packed": PACKED, "batches": BATCHES, "every": UNEVEN_EVERY}
