"""What a rank sent and received, as lines of text below the table of operations."""

from itertools import groupby
from typing import TYPE_CHECKING

from gpulab.observe.columns import sentence
from gpulab.observe.records import Collective
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation


def collective_lines(seen: "Observation") -> list[str]:
    """A summary, then each line of code that posts; nothing without collectives."""
    if not seen.collectives:
        return []
    total = format_bytes(sum(collective.bytes for collective in seen.collectives))
    texts = [f"{plural(len(seen.collectives), 'collective')} of {total}{_time(seen, seen.collectives)}"]
    by_line = groupby(seen.collectives, key=lambda c: (c.line, c.operation, c.ranks))
    texts += [f"  {_posted(seen, list(run))}" for _, run in by_line]
    return ["", *(line for text in texts for line in sentence(text))]


def _posted(seen: "Observation", run: list[Collective]) -> str:
    first = run[0]
    times = f" x{len(run)}" if len(run) > 1 else ""
    who = f" -> {first.ranks[1]}" if first.operation in ("send", "recv") else ""
    who = f"{first.ranks[0]}{who}" if who else " ".join(map(str, first.ranks))
    size = format_bytes(sum(collective.bytes for collective in run))
    return f"{first.operation}{times} of {size} among {who}{_time(seen, run)}: {first.line or 'no line of yours'}"


def _time(seen: "Observation", run) -> str:
    known = [collective for collective in run if collective.end_us is not None]
    open_ones = len(run) - len(known)
    parts = []
    if known and seen.device is not None:
        hidden = sum(seen.hidden_us(collective) for collective in known)
        parts.append(f"{sum(collective.us for collective in known):.0f} us, {hidden:.0f} of them under kernels")
    if open_ones:
        parts.append(f"{open_ones} that nobody waited for")
    return "".join(f", {part}" for part in parts)
