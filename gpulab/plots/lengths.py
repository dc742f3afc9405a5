"""A figure of peak memory against the length of a sequence, with the cards that it would have to fit."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

_GIB = 1 << 30


def peaks_by_length(
    lengths: Sequence[int], peaks: Mapping[str, Sequence[int]], cards: Mapping[str, int], caption: str = ""
) -> Figure:
    """A line of peaks for each job, in bytes at each length. One whose name has ``checkpointing`` is blue and solid, others
    orange and broken; ``cards``: bytes of each, drawn across.

    Raises ValueError where a job has not one peak for each length, or there is none.
    """
    if not peaks or any(len(line) != len(lengths) for line in peaks.values()):
        raise ValueError(f"each job needs a peak for each of {len(lengths)} lengths, and one job at least")
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 4.2))
        for name, line in peaks.items():
            colour, dash = (ACCENT, "-") if "checkpointing" in name else (WARNING, "--")
            heights = [peak / _GIB for peak in line]
            axes.plot(lengths, heights, color=colour, linestyle=dash, marker="o", markersize=4)
            axes.annotate(
                name, (lengths[-1], heights[-1]), xytext=(6, 0), textcoords="offset points", va="center", size=9
            )
        for name, capacity in cards.items():
            axes.axhline(capacity / _GIB, color=INK, linestyle=":", linewidth=1.2)
            axes.annotate(name, (0, capacity / _GIB), xytext=(2, 3), textcoords="offset points", size=9)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set(xlabel="tokens of the sequence", ylabel="GiB", xlim=(0, 1.02 * lengths[-1]))
        axes.set_ylim(0, 1.06 * max(*cards.values(), *(max(line) for line in peaks.values())) / _GIB)
        figure.tight_layout()
    return Figure.of(figure, alt=_in_words(lengths, peaks, cards), caption=caption)


def _in_words(lengths: Sequence[int], peaks: Mapping[str, Sequence[int]], cards: Mapping[str, int]) -> str:
    said = [
        f"{name}: " + ", ".join(f"{peak / _GIB:.1f} GiB at {length:,}" for length, peak in zip(lengths, line)) + "."
        for name, line in peaks.items()
    ]
    limits = ", ".join(f"{name} {capacity / _GIB:.1f} GiB" for name, capacity in cards.items())
    return f"Peak memory by tokens of the sequence. {' '.join(said)} Cards: {limits}."
