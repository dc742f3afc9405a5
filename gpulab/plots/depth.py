"""A figure of gradient norms by depth: what vanishes, what explodes, and what does neither."""

import itertools
import math
from collections.abc import Sequence

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

_LINES = tuple(itertools.product((ACCENT, WARNING, INK), (("-", "o"), ("--", "s"))))
_LOWEST, _HIGHEST = 1e-12, 1e12


def norms_and_depth(depths: Sequence[int], norms: dict[str, list[float]], caption: str) -> Figure:
    """Norms against the number of layers, both logarithmic, a line for each name of ``norms``.

    What is above 1e12, infinities too, is not drawn. Raises ValueError where a line has another number of points than ``depths``.
    """
    if any(len(found) != len(depths) for found in norms.values()):
        raise ValueError(f"every line has {len(depths)} points, one for each depth")
    with style():
        figure, axes = plt.subplots(figsize=(7.0, 3.4))
        for (name, found), (colour, (line, marker)) in zip(norms.items(), _LINES, strict=False):
            drawn = [value if _LOWEST <= value <= _HIGHEST else math.nan for value in found]
            axes.loglog(depths, drawn, linestyle=line, marker=marker, markersize=4, color=colour, label=name)
        axes.set_xticks(depths, [str(depth) for depth in depths])
        axes.minorticks_off()
        axes.set_ylim(_LOWEST, _HIGHEST)
        axes.set_xlabel("layers")
        axes.set_ylabel("gradient norm, first layer")
        axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    told = "; ".join(f"{name}: from {found[0]:.0e} to {found[-1]:.0e}" for name, found in norms.items())
    return Figure.of(
        figure, alt=f"Gradient norm of the first layer at {depths[0]} to {depths[-1]} layers. {told}.", caption=caption
    )
