"""Figures of what holds a card's memory: over one step, and compared between runs."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style
from gpulab.units import format_bytes

if TYPE_CHECKING:
    from gpulab.memory import Bytes, Held

_GIB = 1 << 30
_MOST_POINTS = 160
_LEAST_SHARE = 0.15
# What has one size from step to step is blue, what grows with the batch is orange.
_SHADES = {
    "parameters": (ACCENT, 0.85),
    "gradients": (ACCENT, 0.3),
    "optimizer": (ACCENT, 0.55),
    "cache": (INK, 0.45),
    "activations": (WARNING, 0.8),
    "temporaries": (WARNING, 0.35),
}


def held_over_time(held: "Held", caption: str = "") -> Figure:
    """A step's memory by kind, operation after operation, with its peak marked.

    Of a long step the fullest moment of each stretch is drawn, and a short phase is drawn wider than its due. Raises ValueError where nothing changed.
    """
    changes = held.timeline
    if not changes:
        raise ValueError("nothing was taken or given back: there is nothing to draw")
    phases = _phases(changes)
    unit, name = _unit(held.peak.total)
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 3.4))
        places, drawn = _placed(phases)
        kinds = [kind for kind in _SHADES if any(getattr(bytes_, kind) for bytes_ in drawn)]
        layers = [[getattr(bytes_, kind) / unit for bytes_ in drawn] for kind in kinds]
        _shade(axes.stackplot(places, layers, labels=kinds, step="post"), kinds)
        _name_phases(axes, phases, held.peak.total / unit)
        axes.set(xlabel="operations in order, each phase to its own scale", ylabel=name, xlim=(0, 1), xticks=[])
        axes.set_ylim(0, 1.2 * held.peak.total / unit)
        _legend(axes)
        figure.tight_layout()
    return Figure.of(figure, alt=_story(held, changes), caption=caption)


def held_bars(rows: Sequence[tuple[str, "Bytes"]], capacity: int | None = None, caption: str = "") -> Figure:
    """One bar for each named ``Bytes``, divided by kind; ``capacity``: a card's bytes, drawn as a line."""
    if not rows:
        raise ValueError("no bars: name what is to be compared")
    unit, name = _unit(max(bytes_.total for _, bytes_ in rows))
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 1.2 + 0.42 * len(rows)))
        kinds = [kind for kind in _SHADES if any(getattr(bytes_, kind) for _, bytes_ in rows)]
        begin = [0.0] * len(rows)
        for kind in kinds:
            widths = [getattr(bytes_, kind) / unit for _, bytes_ in rows]
            colour, alpha = _SHADES[kind]
            axes.barh(range(len(rows)), widths, left=begin, color=colour, alpha=alpha, label=kind, height=0.6)
            begin = [a + b for a, b in zip(begin, widths, strict=True)]
        for row, (_, bytes_) in enumerate(rows):
            axes.annotate(
                f"{bytes_.total / unit:.1f}",
                (bytes_.total / unit, row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                size=9,
            )
        if capacity is not None:
            axes.axvline(capacity / unit, color=INK, linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.invert_yaxis()
        widest = max([bytes_.total for _, bytes_ in rows] + [capacity or 0])
        axes.set(xlabel=name, xlim=(0, 1.08 * widest / unit))
        _legend(axes)
        figure.tight_layout()
    return Figure.of(figure, alt=_compared(rows, capacity), caption=caption)


def _phases(changes: Sequence[tuple[str, "Bytes"]]) -> list[tuple[str, list["Bytes"], float]]:
    """Each phase's name, what was held in it, and the share of the width that it is drawn with."""
    found = [
        (phase, [bytes_ for _, bytes_ in run])
        for phase, run in itertools.groupby(changes, key=lambda change: change[0].partition(":")[0])
    ]
    weights = [max(len(run) / len(changes), _LEAST_SHARE) if len(run) > 1 else 0.01 for _, run in found]
    return [(name, run, weight / sum(weights)) for (name, run), weight in zip(found, weights, strict=True)]


def _placed(phases: Sequence[tuple[str, list["Bytes"], float]]) -> tuple[list[float], list["Bytes"]]:
    """The fullest moment of each stretch, and where it begins."""
    places, drawn, begin = [], [], 0.0
    for _, run, share in phases:
        stretch = -(-len(run) // max(1, int(_MOST_POINTS * share)))
        fullest = [max(run[at : at + stretch], key=lambda bytes_: bytes_.total) for at in range(0, len(run), stretch)]
        places += [begin + share * at / len(fullest) for at in range(len(fullest))]
        drawn += fullest
        begin += share
    return [*places, 1.0], [*drawn, drawn[-1]]


def _unit(largest: int) -> tuple[float, str]:
    return (_GIB, "GiB") if largest >= _GIB else (1 << 20, "MiB")


def _shade(areas, kinds: Sequence[str]) -> None:
    for area, kind in zip(areas, kinds, strict=True):
        colour, alpha = _SHADES[kind]
        area.set(facecolor=colour, alpha=alpha, linewidth=0)


def _name_phases(axes, phases: Sequence[tuple[str, list["Bytes"], float]], top: float) -> None:
    """A word over each phase that is wide enough for one, and a line where it begins."""
    begin = 0.0
    for name, _, share in phases:
        if share >= _LEAST_SHARE / 2:
            axes.annotate(name, (begin + share / 2, 1.07 * top), ha="center", va="bottom", size=9)
            axes.axvline(begin, color=INK, linewidth=0.6, linestyle=":")
        begin += share


def _legend(axes) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9)


def _shares(bytes_: "Bytes") -> str:
    parts = [(kind, getattr(bytes_, kind)) for kind in _SHADES]
    return ", ".join(f"{kind} {format_bytes(count)}" for kind, count in parts if count)


def _story(held: "Held", changes: Sequence[tuple[str, "Bytes"]]) -> str:
    operation, phase = held.peak_at
    return (
        f"Memory by kind over {len(changes)} changes. It peaks at {format_bytes(held.peak.total)} in the {phase}, "
        f"after {operation}: {_shares(held.peak)}. At the end {format_bytes(changes[-1][1].total)} are held."
    )


def _compared(rows: Sequence[tuple[str, "Bytes"]], capacity: int | None) -> str:
    limit = f" The card has {format_bytes(capacity)}." if capacity is not None else ""
    return (
        " ".join(f"{label}: {format_bytes(bytes_.total)}, of it {_shares(bytes_)}." for label, bytes_ in rows) + limit
    )
