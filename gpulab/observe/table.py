"""An Observation as a small text table."""

from itertools import groupby
from typing import TYPE_CHECKING

from gpulab.observe.device_table import device_lines
from gpulab.observe.launch_table import launch_lines
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation

_LINE_WIDTH = 40


def observation_table(seen: "Observation") -> str:
    """The headline, then a row for each run of equal (line, operation)."""
    on_device = [*device_lines(seen), *launch_lines(seen)]
    if not seen.ops:
        return "\n".join(on_device[1:]) or "No PyTorch operation ran inside the block."
    return "\n".join([_headline(seen), "", *_columns(_rows(seen)), *on_device])


def _headline(seen: "Observation") -> str:
    copies = plural(len(seen.copies), "copy")
    moved = f" of {format_bytes(seen.copied_bytes)}" if seen.copies else ""
    return (
        f"{plural(len(seen.ops), 'operation')}, {copies}{moved}; "
        f"{format_bytes(seen.new_bytes)} new, {format_bytes(seen.peak_bytes)} at the peak"
    )


def _rows(seen: "Observation") -> list[tuple[str, str, str, str]]:
    kinds = {(copy.op, copy.line): copy.kind for copy in seen.copies}
    rows = [("line", "operation", "copy", "new")]
    for (line, op), run in groupby(seen.ops, key=lambda op: (op.line, op.op)):
        run = list(run)
        times = f" x{len(run)}" if len(run) > 1 else ""
        new_bytes = sum(op.new_bytes for op in run)
        rows.append((_short(str(line or "")), op + times, kinds.get((op, line), ""), format_bytes(new_bytes)))
    return rows


def _short(text: str) -> str:
    return text if len(text) <= _LINE_WIDTH else text[: _LINE_WIDTH - 3] + "..."


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return lines
