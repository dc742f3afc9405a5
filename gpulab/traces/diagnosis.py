"""Which of six kinds of bottleneck a trace shows, and the numbers that say so."""

from dataclasses import dataclass

from gpulab.traces.breakdown import Breakdown, breakdown
from gpulab.traces.events import Trace
from gpulab.traces.intervals import Interval

KINDS = ("input", "launch", "sync", "memory", "compute", "communication")

# From these shares of the step on a loss is worth a complaint. The first two are those of torch-tb-profiler
# 0.4.3 (torch_tb_profiler/profiler/data.py: 5 % for the loader, 10 % for communication), the others the book's.
THRESHOLDS = {"input": 0.05, "communication": 0.10, "launch": 0.20, "sync": 0.20}


@dataclass(frozen=True)
class Verdict:
    """kind: one of ``KINDS``. shares: of each kind, ``"between"`` and ``"unknown"``, in the time of the window; they add up to 1.

    complaints: the losses above their threshold, the largest first. rests_on: the breakdown in microseconds.
    """

    kind: str
    shares: dict[str, float]
    complaints: tuple[str, ...]
    rests_on: Breakdown

    def __str__(self) -> str:
        share = f"{self.kind}: {self.shares[self.kind]:.1%} of the time"
        others = [f"{kind} {self.shares[kind]:.1%}" for kind in self.complaints if kind != self.kind]
        return f"{share}; also {', '.join(others)}" if others else share


def bottleneck(trace: Trace, window: Interval | None = None) -> Verdict:
    """What to mend first in a window of the trace: in its steps unless another is given.

    Time in which the device does what the step is for, products and the rest, is the last suspect. So:
    the largest of the losses (input, launch, sync, exposed communication) that is above its threshold;
    where none is, ``"memory"`` or ``"compute"``, whichever takes longer. ``"memory"`` is kernels that are
    no product, convolution or attention by their name, and copies with nothing beside them.
    A trace of the host alone has no launches to complain of: the time between its operations, ``"launch"``, is named
    where it is more than both.
    """
    rests_on = breakdown(trace, window)
    shares = shares_of(rests_on)
    losses = [kind for kind in THRESHOLDS if rests_on.device or kind != "launch"]
    complaints = sorted((kind for kind in losses if shares[kind] > THRESHOLDS[kind]), key=shares.get, reverse=True)
    work = ("compute", "memory") if rests_on.device else ("compute", "memory", "launch")
    kind = complaints[0] if complaints else max(work, key=shares.get)
    return Verdict(kind, shares, tuple(complaints), rests_on)


def shares_of(parts: Breakdown) -> dict[str, float]:
    """The six kinds, ``"between"`` and ``"unknown"`` (see :class:`Breakdown`) as shares of the window."""
    times = {
        "input": parts.input,
        "launch": parts.launch,
        "sync": parts.sync,
        "memory": parts.other + parts.copies,
        "compute": parts.matrix,
        "communication": parts.communication,
        "between": parts.between,
        "unknown": parts.unknown,
    }
    return {kind: time / parts.total for kind, time in times.items()}
