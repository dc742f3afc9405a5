"""What host operations took in all, and what each took itself, without those that it called."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpulab.traces.events import ANNOTATION, CALL, OPERATION, Event, Trace
from gpulab.traces.intervals import Interval, subtraction


@dataclass(frozen=True)
class OperationTime:
    """One host event with its children, those that it called on its thread. Times are microseconds."""

    event: Event
    children: tuple[Event, ...]

    @property
    def total(self) -> float:
        return self.event.duration

    @property
    def alone(self) -> list[Interval]:
        """When it ran and none of its children did."""
        return subtraction([self.event.span], [child.span for child in self.children])

    @property
    def self_time(self) -> float:
        return self.total - sum(child.duration for child in self.children)


def self_times(trace: Trace, calls: bool = False) -> list[OperationTime]:
    """Every operation and annotation of the host, in order of its start, with its children.

    A child lies inside its parent on the same thread. What the operations put into a queue is no child:
    it runs on the device, at another time. ``calls``: whether runtime calls count as children, too.

    Raises ValueError where two events of a thread overlap and neither lies inside the other.
    """
    chosen = (OPERATION, ANNOTATION, CALL) if calls else (OPERATION, ANNOTATION)
    threads: dict[tuple, list[Event]] = {}
    for event in trace.of(*chosen):
        threads.setdefault(event.thread, []).append(event)
    found = [one for events in threads.values() for one in nested(events)]
    return sorted(found, key=lambda one: (one.event.start, -one.event.end))


def nested(events: Iterable[Event], slack: float = 1.0) -> Iterator[OperationTime]:
    """Events of one thread, sorted by start, the longer first, each with those right inside it.

    ``slack``: microseconds by which a child may end after its parent: traces of 2021 are rounded to whole ones,
    and times since 1970 in a double have steps of a quarter of one.
    """
    children: dict[int, list[Event]] = {}
    events = list(events)
    stack: list[int] = []
    for number, event in enumerate(events):
        while stack and not _inside(event, events[stack[-1]]):
            stack.pop()
        if stack:
            if event.end > events[stack[-1]].end + slack:
                raise ValueError(f"{event.name!r} begins inside {events[stack[-1]].name!r} and ends after it")
            children.setdefault(stack[-1], []).append(event)
        stack.append(number)
    for number, event in enumerate(events):
        yield OperationTime(event, tuple(children.get(number, ())))


def _inside(event: Event, outer: Event) -> bool:
    return event.start < outer.end or event.start == event.end == outer.end
