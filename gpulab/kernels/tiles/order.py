"""What orders programs: releases and acquires of atomics, as a clock with a hand for each program.

A program's accesses are stamped with its epoch, which goes up with every release. An atomic's
release is seen by whoever reads the element atomically later; it orders that program's accesses
only once the value that it read decided something: a branch, a loop or a mask. A program that
drops the value would have done the same had it come first, so nothing is before anything.
"""

import numpy as np


class Order:
    """Which accesses of others come before what the running program does."""

    def __init__(self, programs: int) -> None:
        self._programs = programs
        self._released: dict[tuple, np.ndarray] = {}
        self._known: np.ndarray | None = None
        self._guard: np.ndarray | None = None
        self.program, self.epoch = 0, 1
        self.acquired = False
        """Whether any program came after another."""

    def begin(self, program: int) -> None:
        """A program starts: nothing is ordered before it."""
        self.program, self.epoch, self._known = program, 1, None

    def before(self, programs: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """bool: which stamps of accesses come before the present access, by order or as its own."""
        mine = programs == self.program
        for known in (self._known, self._guard):
            if known is not None:
                mine |= epochs <= known[programs]
        return mine

    def release(self, element: tuple) -> None:
        """What the running program did so far is before whoever acquires ``element`` from now on."""
        seen = self._released.setdefault(element, np.zeros(self._programs, np.int32))
        if self._known is not None:
            np.maximum(seen, self._known, out=seen)
        seen[self.program] = self.epoch
        self.epoch += 1

    def seen(self, element: tuple) -> np.ndarray | None:
        """What an atomic on ``element`` sees: for each program the epoch that it released last."""
        found = self._released.get(element)
        return None if found is None else found.copy()

    def acquire(self, seen: np.ndarray) -> None:
        """The running program chose its way by a value that it read with ``seen``."""
        self._known = both(self._known, seen)
        self.acquired = True

    def guard(self, seen: np.ndarray | None) -> None:
        """The next accesses take place only where a mask lets them, made with ``seen``."""
        self._guard = seen
        self.acquired |= seen is not None


def both(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    """The later of two clocks, hand by hand; None is one that saw nothing."""
    if first is None or second is None:
        return second if first is None else first
    return np.maximum(first, second)
