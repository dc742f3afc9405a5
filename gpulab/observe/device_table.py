"""What a device did, as lines of text below the table of operations."""

from collections import Counter
from typing import TYPE_CHECKING

from gpulab.observe.columns import sentence
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation


def device_lines(seen: "Observation") -> list[str]:
    """A summary, then each line that waits and each race; nothing when no device took part."""
    if seen.device is None or not (seen.kernels or seen.waits or _moved(seen)):
        return []
    said = [f"{seen.device}: {_summary(seen)}", *_waits(seen), *_races(seen)]
    return ["", *(line for text in said for line in sentence(text))]


def _moved(seen: "Observation") -> list:
    return [copy for copy in seen.copies if copy.kind in ("HtoD", "DtoH")]


def _summary(seen: "Observation") -> str:
    parts = [plural(len(seen.kernels), "kernel")]
    for kind in ("HtoD", "DtoH"):
        sizes = [copy.bytes for copy in seen.copies if copy.kind == kind]
        if sizes:
            parts.append(f"{len(sizes)} {kind} of {format_bytes(sum(sizes))}")
    parts.append(f"{plural(len(seen.waits), 'host wait')} of {sum(w.us for w in seen.waits):.0f} us")
    parts.append(plural(len(seen.races), "race"))
    return ", ".join(parts)


def _waits(seen: "Observation") -> list[str]:
    times = Counter((wait.line, wait.reason) for wait in seen.waits)
    return [
        f"  waits: {line or 'no line of yours'}  ({reason}){f' x{count}' if count > 1 else ''}"
        for (line, reason), count in times.items()
    ]


def _races(seen: "Observation") -> list[str]:
    return [
        f"  race, {race.kind}{', in memory handed out again' if race.reuse else ''}: "
        f"{race.first_line or race.first_op} ({_queue(race.first_stream)}) and "
        f"{race.second_line or race.second_op} ({_queue(race.second_stream)})"
        for race in seen.races
    ]


def _queue(number: int) -> str:
    return {-1: "host", 0: "default stream"}.get(number, f"stream {number}")
