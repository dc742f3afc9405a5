"""Figures of a kernel step by step: lanes that take part, addresses that lanes use."""

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from gpulab.plots.figure import ACCENT, INK, WARNING, Figure, style
from gpulab.units import plural

if TYPE_CHECKING:
    from gpulab.kernels.simt.steps import Access, Steps

_WARP, _SECTOR_BYTES, _BANKS = 32, 32, 32
_MOST_WARPS = 8


def warp_steps(steps: "Steps", first: int = 0, count: int = 60) -> Figure:
    """Warps by steps: a mark for every lane that takes part in a statement.

    Steps in which a warp runs with some of its lanes only stand in the warning colour. Raises
    ValueError when nothing was traced.
    """
    shown = steps.steps[first : first + count]
    if not shown:
        raise ValueError("no step was traced: launch a kernel inside the trace() block")
    warps = min(_MOST_WARPS, len(shown[0].lanes))
    with style():
        figure, axes = plt.subplots(figsize=(7, 0.9 + 0.55 * warps))
        for column, step in enumerate(shown):
            for warp in range(warps):
                _draw_lanes(axes, column, warp, step.lanes[warp])
        _label_steps(axes, [step.line.number for step in shown], warps)
        figure.tight_layout()
    return Figure.of(figure, alt=_steps_in_words(steps, shown, warps))


def _draw_lanes(axes, column: int, warp: int, lanes: np.ndarray) -> None:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lanes.astype(int), [0]))))
    colour = ACCENT if lanes.all() else WARNING
    for low, high in zip(edges[::2], edges[1::2]):
        y, height = warp + 0.1 + 0.8 * low / _WARP, 0.8 * (high - low) / _WARP
        axes.add_patch(plt.Rectangle((column, y), 0.9, height, color=colour, linewidth=0))


def _label_steps(axes, numbers: list[int], warps: int) -> None:
    axes.set_xlim(0, len(numbers))
    axes.set_ylim(warps, 0)
    axes.set_yticks([warp + 0.5 for warp in range(warps)], [f"warp {warp}" for warp in range(warps)])
    every = max(1, len(numbers) // 20)
    axes.set_xticks([i + 0.45 for i in range(0, len(numbers), every)], numbers[::every])
    axes.set_xlabel("steps, by line of the kernel; within a warp, lane 0 is at the top")


def _steps_in_words(steps: "Steps", shown: list, warps: int) -> str:
    of_all = np.stack([step.lanes for step in shown])
    running = of_all.any(axis=2)
    partial = int((running & ~of_all.all(axis=2)).sum())
    share = of_all[running].mean()
    return (
        f"Block {steps.block}: {plural(len(shown), 'step')} of {plural(of_all.shape[1], 'warp')}, "
        f"{warps} drawn. Warps run with {100 * share:.0f} % of their lanes on average; "
        f"in {plural(partial, 'warp step')} some lanes of the warp are idle."
    )


def lane_addresses(access: "Access", warp: int = 0) -> Figure:
    """Addresses by lanes: sectors of 32 bytes in global memory, banks in shared memory.

    Raises ValueError when the warp took no part.
    """
    lanes, addresses = access.of_warp(warp)
    if not len(lanes):
        raise ValueError(f"warp {warp} takes no part in this access")
    draw = _draw_banks if access.space == "shared" else _draw_sectors
    with style():
        figure, axes = plt.subplots(figsize=(7, 3.2))
        words = draw(axes, access, lanes, addresses)
        axes.set_xlim(-1, _WARP)
        axes.set_xlabel(f"lane of warp {warp}")
        figure.tight_layout()
    what = "stores to" if access.store else "loads from"
    return Figure.of(
        figure,
        alt=f"Warp {warp} {what} {access.array}: {words}",
        caption=f"{access.line.text}: {words}",
    )


def _draw_sectors(axes, access: "Access", lanes, addresses) -> str:
    touched = np.unique(addresses // _SECTOR_BYTES)
    for row, sector in enumerate(touched):
        axes.axhspan(row, row + 0.92, color=INK, alpha=0.08, linewidth=0)
    rows = np.searchsorted(touched, addresses // _SECTOR_BYTES)
    offset = addresses % _SECTOR_BYTES
    axes.scatter(lanes, rows + 0.92 * (offset + access.item_bytes / 2) / _SECTOR_BYTES, s=14, color=ACCENT)
    every = max(1, len(touched) // 8)
    axes.set_yticks([row + 0.46 for row in range(0, len(touched), every)], [int(s) * 32 for s in touched[::every]])
    axes.set_ylim(len(touched), 0)
    axes.set_ylabel("32-byte sector that begins at byte")
    used = len(np.unique(addresses)) * access.item_bytes
    moved = _SECTOR_BYTES * len(touched)
    return f"{plural(len(lanes), 'lane')}, {plural(len(touched), 'sector')}, {used} of {moved} bytes used"


def _draw_banks(axes, access: "Access", lanes, addresses) -> str:
    banks, words = addresses // 4 % _BANKS, addresses // 4
    depth = np.bincount(np.unique(words) % _BANKS, minlength=_BANKS)
    crowded = depth[banks] > 1
    axes.scatter(lanes[~crowded], banks[~crowded], s=14, color=ACCENT)
    axes.scatter(lanes[crowded], banks[crowded], s=20, color=WARNING, marker="s")
    axes.set_ylim(_BANKS, -1)
    axes.set_ylabel("bank")
    most = int(depth.max())
    used = plural(int((depth > 0).sum()), "bank")
    return f"{plural(len(lanes), 'lane')}, {used}, at most {plural(most, 'word')} in one bank"
