"""A learning-rate schedule over a run, and what a loop makes of it that counts wrongly."""

import anywidget
import traitlets

from gpulab.widgets._source import module, pairs, style

SHAPES = {"cosine": "cosine", "linear": "linear", "stable": "flat, then linear from 80 %"}
LOOPS = {
    "right": "a step of the schedule for each of the optimizer",
    "micro-batches": "a step for each of 4 micro-batches",
    "restart": "restarted halfway, without its state",
    "longer": "the run goes on for a quarter more",
}
TOTAL = 1000
PEAKS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
PERCENTS = {"warm_up": (0, 1, 2, 5, 10, 20), "floor": (0, 1, 10, 30)}


class LrSchedule(anywidget.AnyWidget):
    """A run of 1000 optimizer steps: warm-up in a line, then a decay. The rates are those of PyTorch's schedulers.

    Args:
        peak: one of ``PEAKS``. warm_up: percent of the steps. floor: percent of the peak. shape: a key of ``SHAPES``.
        loop: a key of ``LOOPS``.

    Raises:
        ValueError: for what is not among the choices.
    """

    _esm = module("lr_schedule")
    _css = style("lr_schedule")
    peak = traitlets.Float().tag(sync=True)
    warm_up = traitlets.Int().tag(sync=True)
    floor = traitlets.Int().tag(sync=True)
    shape = traitlets.Unicode().tag(sync=True)
    loop = traitlets.Unicode().tag(sync=True)
    known = traitlets.Dict().tag(sync=True)

    def __init__(
        self, peak: float = 3e-4, warm_up: int = 5, floor: int = 10, shape: str = "cosine", loop: str = "right"
    ):
        for name, value, choices in (
            ("peak", peak, PEAKS),
            ("warm_up", warm_up, PERCENTS["warm_up"]),
            ("floor", floor, PERCENTS["floor"]),
            ("shape", shape, SHAPES),
            ("loop", loop, LOOPS),
        ):
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
        known = {"peaks": list(PEAKS), **{name: list(some) for name, some in PERCENTS.items()}}
        known |= {"shapes": pairs(SHAPES), "loops": pairs(LOOPS), "total": TOTAL}
        super().__init__(peak=peak, warm_up=warm_up, floor=floor, shape=shape, loop=loop, known=known)
