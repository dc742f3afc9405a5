"""Happens-before among the programs of a grid: release and acquire by atomics, as vector clocks; inside one, barriers.

A program's accesses are stamped with its epoch, which advances with every release. A program that reads an element
atomically after a release receives the releasing program's vector clock. It acquires that clock, and is ordered after
those accesses, only once the value read decides something: a branch, a loop or a mask. A program that drops the value
would have done the same before the release, so nothing orders the two.

``phase`` tells what a program did before its last barrier from what it does since.
"""

import numpy as np


class HappensBefore:
    """Which accesses of other programs happen before those of the running program."""

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._released: dict[tuple, np.ndarray] = {}
        self._known: np.ndarray | None = None
        self._guard: np.ndarray | None = None
        self.program, self.epoch, self.phase = 0, 1, 0
        self.acquired = False
        """Whether any program came after another."""

    def begin(self, program: int) -> None:
        """A program starts: its vector clock is empty."""
        self.program, self.epoch, self._known = program, 1, None
        self.barrier()

    def barrier(self) -> None:
        """All threads of the running program have come to one point: what it did so far is before what it does next."""
        self.phase += 1

    def before(self, programs: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """bool: which stamps of accesses come before the present access, by order or as its own."""
        mine = programs == self.program
        for known in (self._known, self._guard):
            if known is not None:
                mine |= epochs <= known[programs]
        return mine

    def release(self, element: tuple) -> None:
        """Release: everything the running program did so far happens before later acquires of ``element``."""
        seen = self._released.setdefault(element, np.zeros(self._programs, np.int32))
        if self._known is not None:
            np.maximum(seen, self._known, out=seen)
        seen[self.program] = self.epoch
        self.epoch += 1

    def clock_of(self, element: tuple) -> np.ndarray | None:
        """The vector clock that an atomic on ``element`` reads: for each program the epoch of its last release."""
        found = self._released.get(element)
        return None if found is None else found.copy()

    def acquire(self, seen: np.ndarray) -> None:
        """Acquire: the running program branched on a value that it read together with the vector clock ``seen``."""
        self._known = both(self._known, seen)
        self.acquired = True

    def guard(self, seen: np.ndarray | None) -> None:
        """The next accesses are masked by a value that was read together with the vector clock ``seen``."""
        self._guard = seen
        self.acquired |= seen is not None


def both(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """The join of two vector clocks, their elementwise maximum; None is the empty clock."""
    if first is None or second is None:
        return second if first is None else first
    return np.maximum(first, second)
