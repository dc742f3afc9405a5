"""A figure of a step as one bar, divided by where its time went."""

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

# Work in the accent's colour, losses in the warning's; a hatch keeps two of a colour apart.
_LOOKS = {
    "compute": (ACCENT, 0.85, ""),
    "memory": (ACCENT, 0.45, ""),
    "communication": (WARNING, 0.8, "//"),
    "input": (WARNING, 0.75, ""),
    "launch": (WARNING, 0.45, ""),
    "sync": (WARNING, 0.25, "\\\\"),
    "between": (INK, 0.25, ""),
    "unknown": (INK, 0.1, ""),
}


def step_bar(rows: list[tuple[str, str, float]], step_us: float, where: str) -> Figure:
    """One bar.

    Args:
        rows: kind, what it means, its share; in the order of the bar. step_us: the whole, in microseconds.
        where: what the times are of, for the caption.
    """
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.9 + 0.24 * len(rows)))
        left = 0.0
        for kind, words, share in rows:
            colour, alpha, hatch = _LOOKS[kind]
            axes.barh(
                [0],
                [share],
                left=left,
                height=0.8,
                color=colour,
                alpha=alpha,
                hatch=hatch,
                edgecolor=INK,
                linewidth=0.5,
                label=f"{kind}, {share:.1%}: {words}",
            )
            left += share
        axes.set(xlim=(0, 1), yticks=[], xticks=[0, 0.25, 0.5, 0.75, 1])
        axes.set_xticklabels(["0", "25 %", "50 %", "75 %", f"{_time(step_us)} a step"])
        axes.spines["left"].set_visible(False)
        axes.legend(
            loc="upper left", bbox_to_anchor=(0, -0.28 * 4 / (1 + len(rows)) - 0.1), frameon=False, borderaxespad=0
        )
    alt = "A step's time: " + ", ".join(f"{kind} {share:.0%}" for kind, _, share in rows) + "."
    return Figure.of(figure, alt, f"Where the time of a step went, {where}.")


def _time(us: float) -> str:
    return f"{us:,.0f} µs" if us < 1e4 else f"{us / 1e3:,.1f} ms"
