"""A launch step by step, for one block: which lanes took part, which addresses they used.

Kept on request and for a bounded number of steps: it is for the reader's eye, and stays out of
the Observation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gpulab.kernels.simt.lanes import WARP
from gpulab.observe.records import SourceLine


@dataclass(frozen=True)
class Step:
    """One statement. ``lanes``: bool, one row of 32 for each warp of the block."""

    line: SourceLine
    lanes: np.ndarray


@dataclass(frozen=True)
class Access:
    """One load or store of the block's warps.

    ``space``: ``global`` or ``shared``. ``threads``: numbers within the block, x first. ``addresses``:
    byte addresses of theirs, in the array's allocation or in the block's shared memory.
    """

    line: SourceLine
    array: str
    space: str
    store: bool
    item_bytes: int
    threads: np.ndarray
    addresses: np.ndarray

    def of_warp(self, warp: int) -> tuple[np.ndarray, np.ndarray]:
        """Lanes (0 to 31) and addresses of one warp."""
        here = self.threads // WARP == warp
        return self.threads[here] % WARP, self.addresses[here]


class Steps:
    """What :func:`trace` fills. ``steps`` and ``accesses`` are in order; ``cut``: there were more."""

    def __init__(self, block: int, max_steps: int) -> None:
        self.block, self._most = block, max_steps
        self.steps: list[Step] = []
        self.accesses: list[Access] = []
        self.cut = False

    def clear(self) -> None:
        """A launch that begins again shows its steps once."""
        del self.steps[:], self.accesses[:]

    def step(self, group, mask, place: int) -> None:
        """Called by the interpreter before a statement runs."""
        slot = self._slot(group)
        if slot is None or self._full(self.steps):
            return
        lanes = mask.lanes.reshape(len(group.batch.blocks), -1, WARP)[slot]
        if not lanes.any():
            return
        rows = np.zeros((group.batch.shape.warps, WARP), dtype=bool)
        rows[slice(None) if group.warp is None else slice(group.warp, group.warp + 1)] = lanes
        self.steps.append(Step(group.launch.places.lines[place], rows))

    def access(self, group, array, mask, at, place: int, store: bool) -> None:
        """Called by the interpreter at every load and store that it counts."""
        slot = self._slot(group)
        if slot is None or self._full(self.accesses):
            return
        positions = mask.positions()
        here = group.slots[positions] == slot
        if not here.any():
            return
        offset = at[here] % array.copy_size if array.copy_size else at[here]
        item = array.dtype.itemsize
        self.accesses.append(
            Access(
                group.launch.places.lines[place],
                array.name,
                array.space,
                store,
                item,
                group.threads[positions[here]],
                offset * item + array.base_bytes,
            )
        )

    def _slot(self, group) -> int | None:
        first, blocks = int(group.batch.blocks[0]), len(group.batch.blocks)
        return self.block - first if first <= self.block < first + blocks else None

    def _full(self, records: list) -> bool:
        self.cut = self.cut or len(records) >= self._most
        return len(records) >= self._most

    def find(self, line: int | str, store: bool | None = None) -> list[Access]:
        """Accesses of one source line, by its number or by a piece of its text.

        Raises ValueError when the line accessed no memory in this block.
        """
        found = [a for a in self.accesses if _is_line(a.line, line) and store in (None, a.store)]
        if not found:
            raise ValueError(f"block {self.block} used no memory at {line!r}, or the launch was not traced")
        return found

    def figure(self, first: int = 0, count: int = 60):
        """Warps by steps: which lanes took part in each statement."""
        from gpulab.plots.warps import warp_steps

        return warp_steps(self, first, count)

    def addresses(self, line: int | str, warp: int = 0, nth: int = 0, store: bool | None = None):
        """Addresses by lanes for the ``nth`` access of a source line by one warp."""
        from gpulab.plots.warps import lane_addresses

        return lane_addresses(self.find(line, store)[nth], warp)


def _is_line(line: SourceLine, wanted: int | str) -> bool:
    return line.number == wanted if isinstance(wanted, int) else wanted in line.text


@contextmanager
def trace(block: int = 0, max_steps: int = 4096) -> Iterator[Steps]:
    """Keep the steps of every launch inside the ``with`` block, for one block of its grid.

    ``block``: its linear number, x first. At most ``max_steps`` steps and as many accesses are kept.
    """
    from gpulab.kernels.simt.launcher import options

    before, options.steps = options.steps, Steps(block, max_steps)
    try:
        yield options.steps
    finally:
        options.steps = before
