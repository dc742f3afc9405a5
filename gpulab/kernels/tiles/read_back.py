"""Races inside one program: one place of a tile stores an element, another place loads it, and no barrier lies between.

The compiler deals the places of a tile out to threads, and the warps of a program run each at its own pace. It puts
barriers between accesses to shared memory alone (its Membar analysis). Between a store to global memory and a load of
it the kernel's author does, with ``tl.debug_barrier()``: "There's no guarantee that tl.store and the following tl.load
on the same address should avoid data race" (a maintainer of Triton, pull request 10925; issue 1097 is such a kernel).
No number of warps makes an order: threads of one warp wait for each other at ``__syncwarp()`` alone (CUDA Programming
Guide). The barrier inside a reduction or a change of layout is one of shared memory (pull requests 8234 and 9025).

A compiler may still deal out both alike: Triton 3.7.1 mirrors the layout of a tile that is loaded transposed where it
knows the strides. Nothing promises that, so it is a race.

The same place of a tile of as many elements is left alone, whatever its shape: as a rule the compiler gives it to the
same thread, which sees what it stored. The rule has exceptions (issue 10924; a scalar, which one thread stores and all
load), so silence proves nothing.
"""

import numpy as np

from gpulab.kernels.tiles.order import HappensBefore
from gpulab.kernels.tiles.sparse import Sparse, zeros

_ANY = 0


class OwnStores:
    """What the running program stored into one storage since its last barrier, and at which place of a tile.

    A place is numbered from the tile's size on: sizes are powers of two, so places of tiles of two sizes differ.
    """

    def __init__(self, elements: int, order: HappensBefore) -> None:
        self._elements, self._order = elements, order
        self._phase, self._first = -1, 1
        self._lines: list[int] = []
        self._number: np.ndarray | Sparse | None = None
        self._place: np.ndarray | Sparse | None = None

    def store(self, where: np.ndarray, places: np.ndarray, line: int) -> None:
        """The running program stores the elements ``where`` at these places of a tile."""
        if self._number is None:
            self._number, self._place = (zeros(self._elements, np.int32) for _ in range(2))
        if self._phase != self._order.phase:
            self._phase, self._first, self._lines = self._order.phase, self._first + len(self._lines), []
        self._number[where], self._place[where] = self._first + len(self._lines), places
        self._lines.append(line)
        twice = self._place[where] != places
        if twice.any():
            self._place[where[twice]] = _ANY

    def loaded_elsewhere(self, where: np.ndarray, places: np.ndarray) -> tuple[int, int] | None:
        """(element, line of the store) of an element that another place stored since the last barrier."""
        if self._phase != self._order.phase:
            return None
        number, stored = self._number[where], self._place[where]
        elsewhere = (number >= self._first) & (stored != places) & (stored != _ANY)
        if not elsewhere.any():
            return None
        at = int(np.argmax(elsewhere))
        return int(where[at]), self._lines[int(number[at]) - self._first]
