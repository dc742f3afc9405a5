"""The figure of an Observation on the CPU: operations in order, bytes alive, copies."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, WARNING, Figure, style
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe import Observation


def memory_timeline(seen: "Observation") -> Figure:
    """Bytes of new storage alive after each operation; each copy marked with its operation.

    Raises ValueError when the observation holds no operation: there is nothing to draw.
    """
    if not seen.ops:
        raise ValueError("no PyTorch operation ran inside the block: there is nothing to draw")
    with style():
        figure, axes = plt.subplots(figsize=(7, 2.4))
        alive = [0, *(op.live_bytes for op in seen.ops)]
        axes.step(range(len(alive)), alive, where="post", color=ACCENT, linewidth=2)
        axes.fill_between(range(len(alive)), alive, step="post", color=ACCENT, alpha=0.15)
        _mark_copies(axes, seen)
        axes.set_xlabel("operations, in order")
        axes.set_ylabel("new storage alive")
        axes.set_ylim(bottom=0, top=max(seen.peak_bytes, 1) * 1.35)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.set_major_formatter(lambda value, _: format_bytes(int(value)))
        axes.yaxis.set_major_locator(plt.MultipleLocator(_tick_bytes(seen.peak_bytes)))
        figure.tight_layout()
    return Figure.of(figure, alt=_in_words(seen))


def _tick_bytes(peak_bytes: int) -> int:
    """A power of two that gives two to four ticks: whole KiB and MiB on the axis."""
    return max(1, 1 << (max(peak_bytes, 1).bit_length() - 2))


def _mark_copies(axes, seen: "Observation") -> None:
    copies = {(copy.op, copy.line): copy.kind for copy in seen.copies}
    for position, op in enumerate(seen.ops, start=1):
        if (op.op, op.line) in copies:
            axes.plot(position, op.live_bytes, "o", color=WARNING)
            axes.annotate(
                copies[op.op, op.line],
                (position, op.live_bytes),
                xytext=(0, 8),
                textcoords="offset points",
                ha="center",
                color=WARNING,
            )


def _in_words(seen: "Observation") -> str:
    return (
        f"{plural(len(seen.ops), 'operation')} in order; {plural(len(seen.copies), 'copy')} "
        f"of {format_bytes(seen.copied_bytes)} in all; new storage peaks at "
        f"{format_bytes(seen.peak_bytes)}."
    )
