"""A figure of sequence parallelism: who has which part of a sequence, and who sends which tokens to whom."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle

from gpulab.plots.figure import ACCENT, INK, Figure, style


def ring_blocks(blocks: Sequence[Sequence[int]], caption: str = "") -> Figure:
    """Which blocks of keys and values each rank of a ring has, turn by turn.

    blocks: of each rank the blocks of the sequence whose queries it owns, as many on each. In turn t rank r has the keys
    of rank r - t. Each square is one block of its queries (down) against one of those keys (across); it is filled where a
    causal mask leaves something to compute. Raises ValueError where ranks own different numbers of blocks.
    """
    world, each = len(blocks), len(blocks[0])
    if any(len(own) != each for own in blocks):
        raise ValueError("each rank owns as many blocks as the others")
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.6 + 0.7 * world))
        for rank, own in enumerate(blocks):
            for turn in range(world):
                _pairs(axes, (turn, rank), own, blocks[(rank - turn) % world])
        axes.set(
            xlim=(-0.1, world),
            ylim=(world, -0.1),
            xticks=[t + 0.425 for t in range(world)],
            yticks=[r + 0.3 for r in range(world)],
        )
        axes.set_xticklabels([f"turn {turn}" for turn in range(world)])
        axes.set_yticklabels(
            [f"rank {rank}\nqueries {' and '.join(map(str, own))}" for rank, own in enumerate(blocks)], size=9
        )
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
    work = [[work_of(own, blocks[(rank - turn) % world]) for turn in range(world)] for rank, own in enumerate(blocks)]
    told = "; ".join(f"rank {rank} computes {', '.join(f'{part:g}' for part in row)}" for rank, row in enumerate(work))
    return Figure.of(figure, f"A ring of {world} ranks, turn by turn, in blocks under a causal mask: {told}.", caption)


def work_of(queries: Sequence[int], keys: Sequence[int]) -> float:
    """Pairs of blocks that a causal mask leaves: those before count whole, those of the same block half."""
    return sum(1.0 if key < query else 0.5 if key == query else 0.0 for query in queries for key in keys)


def _pairs(axes, corner: tuple[int, int], queries: Sequence[int], keys: Sequence[int]) -> None:
    wide, high = 0.85 / len(keys), 0.6 / len(queries)
    for down, query in enumerate(queries):
        for across, key in enumerate(keys):
            at = corner[0] + across * wide, corner[1] + down * high
            axes.add_patch(
                Rectangle(
                    at,
                    wide,
                    high,
                    facecolor=ACCENT if key <= query else "none",
                    alpha=0.75 if key < query else 0.35,
                    linewidth=0,
                )
            )
            axes.add_patch(Rectangle(at, wide, high, fill=False, edgecolor=INK, linewidth=0.5))
    axes.text(
        corner[0] + 0.425,
        corner[1] + 0.77,
        f"keys {' and '.join(map(str, keys))}",
        ha="center",
        va="center",
        fontsize=8,
    )


def tokens_sent(rows: Sequence[Sequence[int]], caption: str = "") -> Figure:
    """rows[r][q]: how many tokens rank r sends to rank q; darker squares are larger."""
    world, most = len(rows), max(map(max, rows))
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.9 + 0.36 * world))
        for source, row in enumerate(rows):
            for target, count in enumerate(row):
                axes.add_patch(
                    Rectangle((target, source), 1, 1, facecolor=ACCENT, alpha=0.6 * count / most, linewidth=0)
                )
                axes.text(target + 0.5, source + 0.5, str(count), ha="center", va="center", fontsize=10)
        axes.set(xlim=(0, world), ylim=(world, 0), xlabel="to the experts of rank", ylabel="from rank")
        axes.set_xticks([r + 0.5 for r in range(world)], [str(r) for r in range(world)])
        axes.set_yticks([r + 0.5 for r in range(world)], [str(r) for r in range(world)])
        axes.tick_params(length=0)
    received = [sum(column) for column in zip(*rows, strict=True)]
    return Figure.of(figure, f"Tokens from rank to rank. By receiver: {', '.join(map(str, received))}.", caption)
