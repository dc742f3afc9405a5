"""The figure of an Observation on a CUDA device: host, streams and copy engines over time."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style
from gpulab.units import format_bytes, plural

if TYPE_CHECKING:
    from gpulab.observe import Kernel, Observation

_SHARE_OF_A_LETTER = 0.0125
"""Of the width of the axes."""


def device_timeline(seen: "Observation") -> Figure:
    """Kernels on their streams, copies on their engines, the host's waits; a race is marked.

    Raises ValueError when the device did nothing: there is nothing to draw.
    """
    lanes = _lanes(seen)
    if not lanes:
        raise ValueError("the device did nothing inside the block: there is nothing to draw")
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.7 + 0.42 * len(lanes)))
        begin = min(bar[0] for bars in lanes.values() for bar in bars)
        total = max(bar[1] for bars in lanes.values() for bar in bars) - begin or 1.0
        for row, bars in enumerate(lanes.values()):
            _draw(axes, row, bars, begin)
            _name(axes, row, bars, begin, total)
        axes.set_yticks(range(len(lanes)), lanes)
        axes.invert_yaxis()
        axes.set_xlim(0, total)
        axes.set_xlabel(f"microseconds ({seen.device})")
        figure.tight_layout()
    return Figure.of(figure, alt=_in_words(seen, total))


def _lanes(seen: "Observation") -> dict[str, list[tuple[float, float, str, str]]]:
    lanes: dict[str, list] = {}
    if seen.waits:
        lanes["host waits"] = [(w.start_us, w.end_us, w.reason, INK) for w in seen.waits]
    raced = {(r.second_op, r.second_line) for r in seen.races}
    for stream in sorted({kernel.stream for kernel in seen.kernels}):
        name = f"stream {stream}" if stream else "default stream"
        lanes[name] = [_bar(kernel, raced) for kernel in seen.kernels if kernel.stream == stream]
    for kind in ("HtoD", "DtoH"):
        copies = [c for c in seen.copies if c.kind == kind]
        if copies:
            lanes[f"copy {kind}"] = [(c.start_us, c.end_us, format_bytes(c.bytes), ACCENT) for c in copies]
    return lanes


def _bar(kernel: "Kernel", raced: set) -> tuple[float, float, str, str]:
    colour = WARNING if (kernel.name, kernel.line) in raced else ACCENT
    return kernel.start_us, kernel.end_us, kernel.name.removeprefix("aten."), colour


def _draw(axes, row: int, bars: list[tuple[float, float, str, str]], begin: float) -> None:
    """All bars of a lane as one collection: an artist for each bar takes many times as long."""
    colours = [colour for *_, colour in bars]
    spans = [(start - begin, end - start) for start, end, *_ in bars]
    axes.broken_barh(spans, (row - 0.3, 0.6), facecolors=colours, edgecolors=colours, alpha=0.35)


def _name(axes, row: int, bars: list[tuple[float, float, str, str]], begin: float, total: float) -> None:
    """A name stands in a bar that has room for it."""
    for start, end, name, _ in bars:
        if (end - start) / total > _SHARE_OF_A_LETTER * len(name):
            axes.annotate(name, ((start + end) / 2 - begin, row), ha="center", va="center", clip_on=True, size=9)


def _in_words(seen: "Observation", total: float) -> str:
    copies = [c for c in seen.copies if c.kind in ("HtoD", "DtoH")]
    races = f"; {plural(len(seen.races), 'race')}" if seen.races else ""
    return (
        f"{seen.device}: {plural(len(seen.kernels), 'kernel')}, {len(copies)} copies between host and "
        f"device and {plural(len(seen.waits), 'host wait')} in {total:.0f} microseconds{races}."
    )
