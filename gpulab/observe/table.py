"""An Observation as a small text table."""

from itertools import groupby
from typing import TYPE_CHECKING

from gpulab.observe.collective_table import collective_lines
from gpulab.observe.columns import columns, sentence
from gpulab.observe.device_table import device_lines
from gpulab.observe.launch_table import launch_lines
from gpulab.observe.loader_table import loader_lines
from gpulab.observe.saved_table import saved_lines
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe.observation import Observation


def observation_table(seen: "Observation") -> str:
    """The headline, then a row for each run of equal (line, operation), 80 columns wide.

    Lines are told apart by their number, in their file or cell; their text may be cut.
    """
    on_device = [
        *device_lines(seen),
        *collective_lines(seen),
        *launch_lines(seen),
        *saved_lines(seen),
        *loader_lines(seen),
    ]
    if not seen.ops:
        return "\n".join(on_device[1:]) or "No PyTorch operation ran inside the block."
    return "\n".join([*sentence(_headline(seen)), "", *columns(_rows(seen), left=(2, 3)), *on_device])


def _headline(seen: "Observation") -> str:
    copies = plural(len(seen.copies), "copy")
    moved = f" of {format_bytes(seen.copied_bytes)}" if seen.copies else ""
    return (
        f"{plural(len(seen.ops), 'operation')}, {copies}{moved}; "
        f"{format_bytes(seen.new_bytes)} new, {format_bytes(seen.peak_bytes)} at the peak"
    )


def _rows(seen: "Observation") -> list[tuple[str, ...]]:
    kinds = {(copy.op, copy.line): copy.kind for copy in seen.copies}
    rows = [("line", "code", "operation", "copy", "new")]
    for (line, op), run in groupby(seen.ops, key=lambda op: (op.line, op.op)):
        run = list(run)
        times = f" x{len(run)}" if len(run) > 1 else ""
        new_bytes = sum(op.new_bytes for op in run)
        where = (str(line.number), str(line)) if line else ("", "")
        rows.append((*where, op + times, kinds.get((op, line), ""), format_bytes(new_bytes)))
    return rows
