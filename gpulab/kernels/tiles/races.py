"""Races between programs: two use one element, one writes, and nothing orders them.

Triton runs programs in any order and all at once. The interpreter runs them one after another,
so a race shows here only in who touched what, never in the values.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

_NOBODY = -1


def _several(first: int | np.ndarray) -> int | np.ndarray:
    """Stands for two or more readers, of which ``first`` was one. Its own inverse; below ``_NOBODY``."""
    return -2 - first


@dataclass(frozen=True)
class Clash:
    """An element that two programs used, by linear program number and line number of a ledger."""

    kind: str
    element: int
    first_program: int
    first_line: int
    second_program: int
    second_line: int


@dataclass
class _Trail:
    """The last program and line that touched each element in one way."""

    elements: int
    program: np.ndarray | None = field(default=None)
    line: np.ndarray | None = field(default=None)

    def clash(self, where: np.ndarray, program: int, ordered: np.ndarray) -> tuple[int, int, int] | None:
        """(element, program, line) of the first use by a program not ordered before this one."""
        if self.program is None:
            return None
        who = self.program[where]
        others = (who != _NOBODY) & (who != program)
        if ordered.size and others.any():
            others &= ~np.isin(who, ordered)
        if not others.any():
            return None
        at = int(np.argmax(others))
        first = int(who[at])
        return int(where[at]), _several(first) if first < _NOBODY else first, int(self.line[where[at]])

    def mark(self, where: np.ndarray, program: int, line: int) -> None:
        self._begin()
        self.program[where], self.line[where] = program, line

    def add(self, where: np.ndarray, program: int, line: int, ordered: np.ndarray) -> None:
        """As :meth:`mark`, keeping that others, not ordered before, did so too."""
        self._begin()
        who = self.program[where]
        replaced = (who == _NOBODY) | (who == program) | np.isin(who, ordered)
        self.program[where] = np.where(replaced, program, np.where(who < _NOBODY, who, _several(who)))
        self.line[where] = line

    def _begin(self) -> None:
        if self.program is None:
            self.program = np.full(self.elements, _NOBODY, np.int32)
            self.line = np.zeros(self.elements, np.int32)


class ElementRaces:
    """Who used each element of one storage, program after program.

    An atomic on one element orders programs as its release and acquire do: what follows it comes
    after all that a program did before an earlier atomic on the same element. Atomics on blocks
    order nothing: they add up, and nobody waits for them.
    """

    def __init__(self, elements: int) -> None:
        self._read, self._written, self._atomic = (_Trail(elements) for _ in range(3))
        self._released: dict[int, set[int]] = defaultdict(set)

    def read(self, where: np.ndarray, program: int, line: int, ordered: set[int]) -> Clash | None:
        before = np.fromiter(ordered, np.int32, len(ordered))
        found = self._against(("read after write", self._written, self._atomic), where, program, line, before)
        self._read.add(where, program, line, before)
        return found

    def write(self, where: np.ndarray, program: int, line: int, ordered: set[int]) -> Clash | None:
        before = np.fromiter(ordered, np.int32, len(ordered))
        found = self._against(("write after write", self._written, self._atomic), where, program, line, before)
        found = found or self._against(("write after read", self._read), where, program, line, before)
        self._written.mark(where, program, line)
        return found

    def atomic(self, where: np.ndarray, program: int, line: int, ordered: set[int]) -> Clash | None:
        """As :meth:`write`, but atomics do not race with one another. Extends ``ordered``."""
        if where.size == 1:
            ordered |= self._released[int(where[0])]
            self._released[int(where[0])] |= ordered | {program}
        before = np.fromiter(ordered, np.int32, len(ordered))
        found = self._against(("write after write", self._written), where, program, line, before)
        found = found or self._against(("write after read", self._read), where, program, line, before)
        self._atomic.mark(where, program, line)
        return found

    @staticmethod
    def _against(kind_and_trails, where, program, line, before) -> Clash | None:
        kind, *trails = kind_and_trails
        for trail in trails:
            found = trail.clash(where, program, before)
            if found is not None:
                element, first_program, first_line = found
                return Clash(kind, element, first_program, first_line, program, line)
        return None
