"""Where the time of a trace's steps went: each moment counted once. Times are microseconds."""

from bisect import bisect_left
from dataclasses import dataclass

from gpulab.traces.events import ANNOTATION, CALL, COLLECTIVE, COPY, KERNEL, OPERATION, SET, Event, Trace
from gpulab.traces.intervals import Interval, intersection, length, subtraction, union
from gpulab.traces.kernels import is_collective, is_input, is_matrix, is_wait, works
from gpulab.traces.self_times import self_times


@dataclass(frozen=True)
class Breakdown:
    """A window of time, divided. Microseconds.

    ``matrix``, ``other``, ``communication``, ``copies``, ``input``, ``sync``, ``launch``, ``between`` and
    ``unknown`` add up to ``total``. A moment with several things in it counts for the first of them in this order.

    total: the window. steps: how many ``ProfilerStep`` ranges lie whole in it.
    matrix: a product, a convolution or attention runs. other: any other kernel runs.
    communication: a collective runs and no kernel beside it: *exposed*. hidden: one runs and a kernel, too.
    copies: a copy or a set is all that runs.
    input, sync, launch, between, unknown: nothing runs on the device: the host waits for its data; it had waited for
        the device, and has put nothing new into the queue yet; it is late for another reason; the next kernel was in the
        queue already; the trace does not say who launched what comes next.
    loading: all that the host waited for data, hidden or not.
    device: False for a trace of the host alone. There operations take the place of kernels, and
        ``launch`` is the time between them.
    """

    total: float
    steps: int
    matrix: float
    other: float
    communication: float
    hidden: float
    copies: float
    input: float
    sync: float
    launch: float
    between: float
    unknown: float
    loading: float
    device: bool = True

    @property
    def compute(self) -> float:
        """A kernel runs that is no collective."""
        return self.matrix + self.other

    @property
    def idle(self) -> float:
        """Nothing runs: no kernel, no collective, no copy."""
        return self.input + self.sync + self.launch + self.between + self.unknown

    @property
    def non_compute(self) -> float:
        """A collective, a copy or a set runs, and no kernel."""
        return self.communication + self.copies

    @property
    def hidden_share(self) -> float:
        """The part of the time of collectives that kernels hide; 0 where there are none."""
        return self.hidden / (self.hidden + self.communication) if self.hidden else 0.0


def breakdown(trace: Trace, window: Interval | None = None) -> Breakdown:
    """Divide a window of the trace: its steps (:attr:`Trace.window`) unless another is given.

    Raises ValueError for a window that is empty.
    """
    window = window or trace.window
    if not window[0] < window[1]:
        raise ValueError(f"the window {window} is empty")
    whole = [step for step in trace.steps if window[0] <= step.start and step.end <= window[1]]
    loading = intersection([window], _spans(e for e in trace.of(OPERATION, ANNOTATION) if is_input(e.name)))
    divide = _of_device if trace.device else _of_host
    return Breakdown(
        total=window[1] - window[0],
        steps=len(whole),
        loading=length(loading),
        device=bool(trace.device),
        **divide(trace, window, loading),
    )


def _of_device(trace: Trace, window: Interval, loading: list[Interval]) -> dict[str, float]:
    kernels = trace.of(KERNEL)
    matrix = _within(window, (k for k in kernels if is_matrix(k.name)))
    computing = _within(window, kernels)
    talking = _within(window, trace.of(COLLECTIVE))
    moving = _within(window, trace.of(COPY, SET))
    busy = union(computing, talking, moving)
    return {
        "matrix": length(matrix),
        "other": length(computing) - length(matrix),
        "communication": length(subtraction(talking, computing)),
        "hidden": length(intersection(talking, computing)),
        "copies": length(subtraction(moving, union(computing, talking))),
        **_idle(trace, subtraction([window], busy), loading),
    }


def _idle(trace: Trace, gaps: list[Interval], loading: list[Interval]) -> dict[str, float]:
    """The gaps by what the host did. Each gap ends where something starts on the device, or with the window."""
    waits = _Waits(trace)
    starts = [event.start for event in trace.device]
    found: dict[str, list[Interval]] = {cause: [] for cause in ("between", "unknown", "sync", "launch")}
    for start, end in gaps:
        at = bisect_left(starts, end)
        follows = trace.device[at] if at < len(starts) and starts[at] == end else None
        found[_cause(start, follows, trace.launched_by, waits)].append((start, end))
    return {
        "input": length(intersection(found["sync"] + found["launch"], loading)),
        "sync": length(subtraction(found["sync"], loading)),
        "launch": length(subtraction(found["launch"], loading)),
        "between": length(found["between"]),
        "unknown": length(found["unknown"]),
    }


def _cause(start: float, follows: Event | None, launched_by: dict[int, Event], waits: "_Waits") -> str:
    """Of a gap that begins at ``start`` and ends when ``follows`` starts; None where the window ends it."""
    if follows is not None:
        call = launched_by.get(follows.correlation)
        if call is None:
            return "unknown"
        if call.end <= start:
            return "between"
    return "sync" if waits.under_way(start) else "launch"


class _Waits:
    """When the host was inside a call that returns only after the device's work."""

    def __init__(self, trace: Trace) -> None:
        ends = {e.correlation: e.end for e in trace.of(COPY) if e.correlation is not None}
        waiting = (c for c in trace.of(CALL) if is_wait(c.name) or c.end >= ends.get(c.correlation, float("inf")))
        self._spans = union(_spans(waiting))
        self._ends = [end for _, end in self._spans]

    def under_way(self, moment: float) -> bool:
        at = bisect_left(self._ends, moment)
        return at < len(self._spans) and self._spans[at][0] <= moment


def _of_host(trace: Trace, window: Interval, loading: list[Interval]) -> dict[str, float]:
    working = [one for one in self_times(trace) if works(one.event.name)]
    matrix = intersection([window], (span for one in working if is_matrix(one.event.name) for span in one.alone))
    computing = intersection([window], (span for one in working for span in one.alone))
    talking = _within(window, (e for e in trace.of(OPERATION, ANNOTATION) if is_collective(e.name)))
    computing, matrix = subtraction(computing, loading), subtraction(matrix, loading)
    return {
        "matrix": length(matrix),
        "other": length(computing) - length(matrix),
        "communication": length(subtraction(talking, union(computing, loading))),
        "hidden": length(intersection(talking, computing)),
        "copies": 0.0,
        "input": length(loading),
        "sync": 0.0,
        "launch": length(subtraction([window], union(computing, talking, loading))),
        "between": 0.0,
        "unknown": 0.0,
    }


def _spans(events) -> list[Interval]:
    return [event.span for event in events]


def _within(window: Interval, events) -> list[Interval]:
    return intersection([window], _spans(events))
