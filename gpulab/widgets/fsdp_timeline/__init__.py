"""One step of FSDP, event by event: what is gathered, computed and freed, and what every rank holds then."""

from dataclasses import asdict

import anywidget
import traitlets

from gpulab.widgets._source import module, style
from gpulab.widgets.fsdp_timeline.schedule import moments

UNITS = 4


class FsdpTimeline(anywidget.AnyWidget):
    """A model of four equal units, sharded over a few ranks; the reader steps through a training step.

    Args:
        ranks: 2 to 4. reshard: whether the forward pass frees what it gathered. prefetch: whether collectives run
        beside arithmetic. step: the event to start at, from 1.

    Raises:
        ValueError: for other numbers of ranks, and for an event that is not there.
    """

    _esm = module("fsdp_timeline")
    _css = style("fsdp_timeline")
    ranks = traitlets.Int().tag(sync=True)
    reshard = traitlets.Bool().tag(sync=True)
    prefetch = traitlets.Bool().tag(sync=True)
    step = traitlets.Int().tag(sync=True)
    units = traitlets.Int().tag(sync=True)
    schedules = traitlets.Dict().tag(sync=True)

    def __init__(self, ranks: int = 4, reshard: bool = True, prefetch: bool = False, step: int = 1):
        if not 2 <= ranks <= 4:
            raise ValueError(f"there are 2 to 4 ranks, not {ranks}")
        last = len(moments(UNITS, reshard, prefetch))
        if not 1 <= step <= last:
            raise ValueError(f"step {step} of {last}: the first is 1")
        super().__init__(
            ranks=ranks, reshard=reshard, prefetch=prefetch, step=step, units=UNITS, schedules=_schedules()
        )


def _schedules() -> dict[str, list[dict]]:
    """The moments by what is switched on, in words."""
    return {
        " ".join(name for name, on in (("reshard", reshard), ("prefetch", prefetch)) if on): [
            asdict(moment) for moment in moments(UNITS, reshard, prefetch)
        ]
        for reshard in (True, False)
        for prefetch in (True, False)
    }
