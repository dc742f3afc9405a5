"""A loss scale step by step: how it grows, where it falls, and what loops without its care do."""

from collections.abc import Iterable

import anywidget
import traitlets

from gpulab.formats import FP16
from gpulab.widgets._source import module, style

LOOPS = {
    "right": "scale, step, update",
    "no update": "scaler.update() left out",
    "optimizer": "optimizer.step() in place of scaler.step()",
    "clip": "clips before unscaling",
    "fresh": "a new scaler in every step",
    "none": "no scaler",
}


class LossScale(anywidget.AnyWidget):
    """A training loop in fp16 whose gradient is the same in every step, but for those that overflow anyway.

    Args:
        init: exponent of the first scale, 0 to 24. interval: clean steps after which it doubles, 1 to 100.
        peak: exponent of the gradient, unscaled, -30 to 10.
        spikes: steps whose gradient is infinite whatever the scale.
        loop: a key of ``LOOPS``. steps: how many, 10 to 400.

    Raises:
        ValueError: for what the sliders cannot hold.
    """

    _esm = module("loss_scale")
    _css = style("loss_scale")
    init = traitlets.Int().tag(sync=True)
    interval = traitlets.Int().tag(sync=True)
    peak = traitlets.Int().tag(sync=True)
    spikes = traitlets.List(traitlets.Int()).tag(sync=True)
    loop = traitlets.Unicode().tag(sync=True)
    steps = traitlets.Int().tag(sync=True)
    loops = traitlets.Dict().tag(sync=True)
    half = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        init: int = 16,
        interval: int = 20,
        peak: int = -4,
        spikes: Iterable[int] = (70,),
        loop: str = "right",
        steps: int = 160,
    ):
        for name, value, low, high in (
            ("init", init, 0, 24),
            ("interval", interval, 1, 100),
            ("peak", peak, -30, 10),
            ("steps", steps, 10, 400),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name} is from {low} to {high}, not {value}")
        if loop not in LOOPS:
            raise ValueError(f"a loop is one of {', '.join(LOOPS)}, not {loop!r}")
        super().__init__(
            init=init,
            interval=interval,
            peak=peak,
            spikes=sorted(set(spikes)),
            loop=loop,
            steps=steps,
            loops=LOOPS,
            half={"exponent": FP16.exponent_bits, "mantissa": FP16.mantissa_bits, "reserved": FP16.reserved},
        )
