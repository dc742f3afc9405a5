"""Races: two programs, or two threads of one, use one element, one writes, and nothing orders them.

Triton runs programs in any order and all at once. The interpreter runs them one after another,
so a race shows here only in who touched what, never in the values.
"""

from dataclasses import dataclass

import numpy as np

from gpulab.kernels.tiles.order import HappensBefore
from gpulab.kernels.tiles.read_back import OwnStores
from gpulab.kernels.tiles.sparse import Sparse, zeros


@dataclass(frozen=True)
class Clash:
    """An element that two programs used, or one at two places of its tiles: linear program numbers, line numbers of a ledger."""

    kind: str
    element: int
    first_program: int
    first_line: int
    second_program: int
    second_line: int


class _Uses:
    """Uses of elements: program, epoch, line and the use before. Use 0 is nobody's."""

    def __init__(self) -> None:
        self._rows, self._used = np.zeros((4, 64), np.int32), 1

    program, epoch, line, before = (property(lambda self, row=row: self._rows[row]) for row in range(4))

    def add(self, program: int, epoch: int, line: int, before: np.ndarray) -> np.ndarray:
        """A use after each of ``before``; their numbers."""
        numbers = np.arange(self._used, self._used + before.size, dtype=np.int32)
        self._used += before.size
        while self._used > self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)], axis=1)
        self._rows[:3, numbers] = np.array([[program], [epoch], [line]])
        self._rows[3, numbers] = before
        return numbers


class _AccessHistory:
    """Who used each element in one way since it was forgotten: for each the last use, of a chain."""

    def __init__(self, elements: int, order: HappensBefore) -> None:
        self._elements, self._order = elements, order
        self._last: np.ndarray | Sparse | None = None
        self._uses = _Uses()

    def add(self, where: np.ndarray, line: int) -> None:
        """The running program uses the elements ``where``."""
        if self._last is None:
            self._last = zeros(self._elements, np.int32)
        order, uses, last = self._order, self._uses, self._last[where]
        new = (uses.program[last] != order.program) | (uses.epoch[last] != order.epoch) | (last == 0)
        before, which = np.unique(last[new], return_inverse=True)
        if before.size:
            self._last[where[new]] = uses.add(order.program, order.epoch, line, before)[which]

    def forget(self, where: np.ndarray) -> None:
        if self._last is not None:
            self._last[where] = 0

    def clash(self, where: np.ndarray) -> tuple[int, int, int] | None:
        """(element, program, line) of a use that is not ordered before the running program."""
        if self._last is None:
            return None
        uses, heads = self._uses, np.unique(self._last[where])
        chain = np.stack([heads, heads])[:, heads > 0]
        while chain.size:
            head, use = chain
            free = ~self._order.before(uses.program[use], uses.epoch[use])
            if free.any():
                at = int(np.argmax(free))
                element = where[np.argmax(self._last[where] == head[at])]
                return int(element), int(uses.program[use[at]]), int(uses.line[use[at]])
            earlier = uses.before[use]
            chain = np.stack([head, earlier])[:, earlier > 0]
        return None


class ElementRaces:
    """Who used each element of one storage, program after program; ``order`` says who is before whom."""

    def __init__(self, elements: int, order: HappensBefore) -> None:
        self._order = order
        self._read, self._written, self._atomic = (_AccessHistory(elements, order) for _ in range(3))
        self._own = OwnStores(elements, order)

    def read(self, where: np.ndarray, places: np.ndarray, line: int) -> list[Clash]:
        found = self._against(where, line, ("read after write", self._written), ("read after write", self._atomic))
        own = self._own.loaded_elsewhere(where, places)
        if own is not None:
            element, first_line = own
            found.append(Clash("read after write", element, self._order.program, first_line, self._order.program, line))
        self._read.add(where, line)
        return found

    def write(self, where: np.ndarray, places: np.ndarray, line: int) -> list[Clash]:
        histories = (
            ("write after write", self._written),
            ("write after write", self._atomic),
            ("write after read", self._read),
        )
        found = self._against(where, line, *histories)
        # Whoever comes after this write comes after all that it came after.
        for _, accesses in histories:
            accesses.forget(where)
        self._written.add(where, line)
        self._own.store(where, places, line)
        return found

    def atomic(self, where: np.ndarray, places: np.ndarray, line: int) -> list[Clash]:
        """As :meth:`write`, but atomics do not race with one another."""
        found = self._against(where, line, ("write after write", self._written), ("write after read", self._read))
        self._atomic.add(where, line)
        return found

    def _against(self, where: np.ndarray, line: int, *histories: tuple[str, _AccessHistory]) -> list[Clash]:
        for kind, accesses in histories:
            found = accesses.clash(where)
            if found is not None:
                element, program, first_line = found
                return [Clash(kind, element, program, first_line, self._order.program, line)]
        return []
