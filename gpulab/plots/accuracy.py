"""A figure of success by number format: a mark for each seed, so that the spread between seeds is seen beside that between formats."""

from collections.abc import Mapping

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, Figure, style

_MARKS, _SIGNS = "osD", "●■◆"


def success_by_format(shares: Mapping[str, list[float]], episodes: int, where: str) -> Figure:
    """A row for each format of ``shares``: the share of successes of each seed, and their mean.

    where: what was measured, and when, for the caption. Raises ValueError without formats, and where one has
    another number of seeds than the first, or more than three.
    """
    seeds = {len(found) for found in shares.values()}
    if len(seeds) != 1 or not 0 < (count := seeds.pop()) <= len(_MARKS):
        raise ValueError(f"each format has one share for each of at most {len(_MARKS)} seeds")
    with style():
        figure, axes = plt.subplots(figsize=(7.2, 0.9 + 0.36 * len(shares)))
        for row, found in enumerate(shares.values()):
            percent = [100 * share for share in found]
            axes.plot([min(percent), max(percent)], [row, row], color=ACCENT, linewidth=1.2, alpha=0.5)
            axes.plot([sum(percent) / count] * 2, [row - 0.25, row + 0.25], color=INK, linewidth=1.5)
            for mark, share in zip(_MARKS, percent, strict=False):
                axes.plot(share, row, mark, color=ACCENT, markersize=6, alpha=0.85)
        axes.set_yticks(range(len(shares)), list(shares))
        axes.invert_yaxis()
        axes.set_xlim(None, 100.8)
        axes.grid(axis="x", color=INK, alpha=0.15)
        key = "  ".join(f"{sign} seed {seed}" for seed, sign in enumerate(_SIGNS[:count]))
        axes.set_xlabel(f"success, %:  {key}  | mean", size=9)
    told = "; ".join(f"{name}: " + ", ".join(f"{share:.1%}" for share in found) for name, found in shares.items())
    return Figure.of(
        figure,
        alt=f"Success of {episodes} episodes by format, one share for each seed. {told}.",
        caption=f"TinyVLA trained in each format from the same {count} seeds, {episodes} unseen episodes a mark, {where}.",
    )
