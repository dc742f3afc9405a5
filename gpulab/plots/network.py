"""A figure of bandwidth against message size: where a collective stops being bound by latency."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style

if TYPE_CHECKING:
    from gpulab.collectives.network import Network

_LINES = (ACCENT, WARNING, INK)


def bandwidth_by_size(networks: dict[str, tuple["Network", int]], kind: str = "all_reduce", most: int = 34) -> Figure:
    """Bus bandwidth of a collective from 1 KiB to ``2**most`` bytes, a line for each (network, ranks); both axes logarithmic.

    Raises ValueError for no network, or more than there are colours.
    """
    if not 1 <= len(networks) <= len(_LINES):
        raise ValueError(f"{len(networks)} lines: draw 1 to {len(_LINES)}")
    sizes = [2**power for power in range(10, most + 1)]
    reached = {
        name: [network.bus_bandwidth(kind, size, ranks) / 1e9 for size in sizes]
        for name, (network, ranks) in networks.items()
    }
    with style():
        figure, axes = plt.subplots(figsize=(7.4, 3.4))
        for (name, values), colour, dashes in zip(reached.items(), _LINES, ("-", "--", ":"), strict=False):
            axes.loglog(sizes, values, dashes, color=colour, label=name)
        axes.set_xticks([2**10, 2**15, 2**20, 2**25, 2**30], ["1 KiB", "32 KiB", "1 MiB", "32 MiB", "1 GiB"])
        axes.minorticks_off()
        axes.set_xlabel(f"bytes of the {kind.replace('_', '-')}")
        axes.set_ylabel("bus bandwidth, GB/s")
        axes.grid(color=INK, alpha=0.15)
        axes.legend(frameon=False, fontsize=9)
        figure.tight_layout()
    ends = "; ".join(
        f"{name}: {values[0]:.2g} GB/s at 1 KiB, {values[-1]:.0f} GB/s at {sizes[-1] >> 30} GiB"
        for name, values in reached.items()
    )
    alt = f"Bus bandwidth of an {kind.replace('_', '-')} rises with its size and levels off. {ends}."
    return Figure.of(figure, alt=alt, caption=f"Modelled. {ends}.")
