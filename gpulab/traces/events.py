"""What stands in a trace: events by kind, and the trace that holds them. Times are microseconds."""

import re
from dataclasses import dataclass
from functools import cached_property

from gpulab.traces.intervals import Interval

STEP = re.compile(r"ProfilerStep#\d+")
OPERATION, ANNOTATION, CALL = "operation", "annotation", "call"
KERNEL, COPY, SET, COLLECTIVE = "kernel", "copy", "set", "collective"
ON_DEVICE = (KERNEL, COPY, SET, COLLECTIVE)


@dataclass(frozen=True)
class Event:
    """One thing that took time.

    kind: on the host ``"operation"`` (of PyTorch), ``"annotation"`` (``record_function`` and steps) or
        ``"call"`` (of the CUDA or HIP runtime or driver); on the device ``"kernel"``, ``"copy"``, ``"set"``
        or ``"collective"`` (a kernel of NCCL or RCCL).
    start, end: microseconds since the trace's first event.
    thread: host events: process and thread. stream, device: device events; else None.
    correlation: the number that a call and what it put into a queue share; None where there is none.
    bytes: of a copy or a set, where the trace says it.
    """

    name: str
    kind: str
    start: float
    end: float
    thread: tuple | None = None
    stream: int | None = None
    device: int | None = None
    correlation: int | None = None
    bytes: int | None = None

    @property
    def duration(self) -> float:
        return self.end - self.start

    @property
    def span(self) -> Interval:
        return self.start, self.end

    @property
    def on_device(self) -> bool:
        return self.kind in ON_DEVICE


@dataclass(frozen=True)
class Trace:
    """Events in order of their start; of two that start together, the longer one first.

    name: what the device is called in the trace, or None. modelled: whether a model of this
    book's wrote it, and no clock.
    """

    events: tuple[Event, ...]
    name: str | None = None
    modelled: bool = False

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event.kind in kinds]

    @cached_property
    def device(self) -> list[Event]:
        """Kernels, copies, sets and collectives."""
        return self.of(*ON_DEVICE)

    @cached_property
    def steps(self) -> list[Event]:
        """The ranges ``ProfilerStep#``, which ``prof.step()`` ends."""
        return [e for e in self.events if not e.on_device and STEP.fullmatch(e.name)]

    @cached_property
    def launched_by(self) -> dict[int, Event]:
        """The runtime call of each correlation number."""
        return {call.correlation: call for call in self.of(CALL) if call.correlation is not None}

    @cached_property
    def device_span(self) -> Interval:
        """From the first event on the device to the end of the last. Raises ValueError where there is none."""
        if not self.device:
            raise ValueError("nothing ran on a device in this trace")
        return self.device[0].start, max(event.end for event in self.device)

    @cached_property
    def window(self) -> Interval:
        """The steps, and the device's work until its end; the whole trace where no step is marked."""
        marked = self.steps or self.events
        return marked[0].start, max(event.end for event in [*marked, *self.device])
