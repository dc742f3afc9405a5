"""A figure of bucket size against step time in data parallelism: the U."""

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style


def buckets_and_time(all_summed_us: dict[float, float], first_sent_us: dict[float, float], caption: str) -> Figure:
    """By bucket size in MiB: when the first all-reduce starts, and when all are over, in microseconds of the backward pass.

    Raises ValueError for sizes that are not the same in both, or none.
    """
    if not all_summed_us or all_summed_us.keys() != first_sent_us.keys():
        raise ValueError("expected the same bucket sizes in both, and at least one")
    sizes = sorted(all_summed_us)
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 3.2))
        axes.semilogx(sizes, [all_summed_us[s] for s in sizes], "-o", color=ACCENT, label="all gradients summed")
        axes.semilogx(sizes, [first_sent_us[s] for s in sizes], "--s", color=WARNING, label="first bucket sent")
        axes.set_xticks(sizes, [f"{s:g}" for s in sizes])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("bucket_cap_mb, in MiB")
        axes.set_ylabel("microseconds")
        axes.grid(color=INK, alpha=0.15)
        axes.legend(frameon=False, fontsize=9)
        figure.tight_layout()
    told = "; ".join(
        f"{s:g} MiB: first sent after {first_sent_us[s]:.0f} us, over after {all_summed_us[s]:.0f} us" for s in sizes
    )
    best = min(all_summed_us, key=all_summed_us.get)
    return Figure.of(figure, alt=f"Time against bucket size, least at {best:g} MiB. {told}.", caption=caption)
