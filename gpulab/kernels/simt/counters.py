"""What the warps did, by source line; and what was found wrong."""

from dataclasses import fields

from gpulab.kernels.simt.source import Places
from gpulab.observe.launches import Fault, LineCounts, ThreadRace

_COUNTS = tuple(f.name for f in fields(LineCounts) if f.type is int or f.type == "int")
MOST_FINDINGS = 32


class Counter:
    """:class:`gpulab.observe.LineCounts` while it is still counting."""

    __slots__ = _COUNTS

    def __init__(self) -> None:
        for name in _COUNTS:
            setattr(self, name, 0)


class Findings:
    """Races and faults, each pair of lines or each line once."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.races: dict[tuple, ThreadRace] = {}
        self.faults: dict[tuple, Fault] = {}
        self.warnings: dict[str, None] = {}

    def race(self, space, kind, array, index, first_thread, first_place, second_thread, second_place) -> None:
        key = (space, array, *sorted((first_place, second_place)))
        if key not in self.races and len(self.races) < MOST_FINDINGS:
            lines = self._places.lines
            self.races[key] = ThreadRace(
                space, kind, array, index, first_thread, lines[first_place], second_thread, lines[second_place]
            )

    def fault(self, kind, array, index, thread, place, count) -> Fault:
        key = (kind, array, place)
        known = self.faults.get(key)
        if known is not None:
            fault = Fault(kind, array, known.index, known.thread, known.line, known.count + count)
        else:
            fault = Fault(kind, array, index, thread, self._places.lines[place], count)
        if known is not None or len(self.faults) < MOST_FINDINGS:
            self.faults[key] = fault
        return fault

    def warn(self, text: str) -> None:
        if len(self.warnings) < MOST_FINDINGS:
            self.warnings[text] = None


class Trace:
    """Counters for every line that ran; built while a launch is observed."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._counters: dict[int, Counter] = {}

    def at(self, place: int) -> Counter:
        counter = self._counters.get(place)
        if counter is None:
            counter = self._counters[place] = Counter()
        return counter

    def lines(self) -> tuple[LineCounts, ...]:
        """Ordered by file and line number."""
        found = [
            LineCounts(self._places.lines[place], **{name: getattr(counter, name) for name in _COUNTS})
            for place, counter in self._counters.items()
        ]
        return tuple(sorted(found, key=lambda counts: (counts.line.file, counts.line.number)))
