"""A figure of the time that an interval between checkpoints wastes."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style


def waste_by_interval(
    minutes: Sequence[float], closed: dict[str, list[float]], replayed: dict[str, list[float]], caption: str
) -> Figure:
    """Waste in percent of useful time against the interval, logarithmic: a line of the closed form and marks of the replay for each name.

    Raises ValueError where a line has another number of points than ``minutes``, or no marks.
    """
    if set(closed) != set(replayed) or any(
        len(line) != len(minutes) for line in (*closed.values(), *replayed.values())
    ):
        raise ValueError(f"every name has a line and marks of {len(minutes)} points")
    with style():
        figure, axes = plt.subplots(figsize=(7.0, 3.4))
        for (name, line), colour, shape in zip(closed.items(), (ACCENT, WARNING, INK), ("o", "s", "^"), strict=False):
            axes.semilogx(minutes, [100 * value for value in line], color=colour, label=name)
            marks = [100 * value if math.isfinite(value) else math.nan for value in replayed[name]]
            axes.semilogx(minutes, marks, shape, color=colour, markersize=4)
        axes.set_ylim(0, 60)
        axes.set_xlabel("minutes of work between two checkpoints")
        axes.set_ylabel("waste, % of useful time")
        axes.grid(color=INK, alpha=0.15)
        axes.legend(frameon=False, fontsize=9)
    least = {name: min(range(len(minutes)), key=line.__getitem__) for name, line in closed.items()}
    told = "; ".join(
        f"{name}: least, {closed[name][at]:.1%}, at {minutes[at]:.3g} minutes" for name, at in least.items()
    )
    return Figure.of(figure, alt=f"Waste against the interval between checkpoints. {told}.", caption=caption)
