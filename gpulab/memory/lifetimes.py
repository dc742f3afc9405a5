"""The life of every storage: when it was first met, when it was gone, and what it was for."""

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from gpulab.memory.categories import CATEGORIES, Bytes


class Moment(NamedTuple):
    """After an operation. ``phase``: forward, backward, recomputation, step, or inference."""

    operation: str
    phase: str


@dataclass(eq=False)
class Lifetime:
    """``born`` and ``died`` are numbers of moments; ``kind`` is told by who holds it, else by when it lived.

    ``saved``: whether a backward pass found it alive; None while that is to come.
    """

    nbytes: int
    born: int
    died: int | None = None
    kind: str | None = None
    saved: bool | None = False
    differentiable: bool = False

    @property
    def held_as(self) -> str:
        saved = self.saved or self.saved is None and self.differentiable and self.died is None
        return self.kind or ("activations" if saved else "temporaries")


class Ledger:
    """All lives so far. A storage that is resized ends one life and begins another."""

    def __init__(self) -> None:
        self.moments: list[Moment] = [Moment("", "before")]
        self.lives: list[Lifetime] = []
        self.total = 0
        self.peak_total, self.peak_moment = 0, 0
        self._living: dict[int, Lifetime] = {}
        self._watchers: dict[int, weakref.ref] = {}
        self._undecided: list[Lifetime] = []
        self._resized: list[weakref.ref] = []

    def resized(self, storage: torch.UntypedStorage) -> None:
        """By no operation, as FSDP frees. One that was not met is nobody's yet."""
        if storage._cdata in self._living:
            self._resized.append(weakref.ref(storage))

    def meet(self, storage: torch.UntypedStorage, forward: bool = False, differentiable: bool = False) -> Lifetime:
        """The life of a storage, which begins now when it is new.

        forward: a backward pass may come and find it. differentiable: one is to be expected.
        """
        key, nbytes = storage._cdata, storage.nbytes()
        life = self._living.get(key)
        if life is not None and life.nbytes == nbytes:
            return life
        kind = None
        if life is not None:
            kind = life.kind
            self._gone(key)
        life = Lifetime(
            nbytes, len(self.moments) - 1, kind=kind, saved=None if forward else False, differentiable=differentiable
        )
        self._living[key] = life
        self._watchers[key] = weakref.ref(storage, lambda _: self._gone(key))
        self.lives.append(life)
        self.total += nbytes
        if forward:
            self._undecided.append(life)
        return life

    def begin(self, moment: Moment) -> None:
        self.moments.append(moment)

    def settle(self) -> None:
        """A moment's storages are met, and those that were resized without an operation: was it the fullest?"""
        while self._resized:
            if (storage := self._resized.pop()()) is not None:
                self.meet(storage)
        if self.total > self.peak_total:
            self.peak_total, self.peak_moment = self.total, len(self.moments) - 1

    def forward_ended(self) -> None:
        """What a forward pass made and is alive now, was left for the backward pass."""
        for life in self._undecided:
            life.saved = life.died is None
        self._undecided.clear()

    def now(self) -> Bytes:
        """What is held. What a forward pass made counts as left for the backward pass while that is to come."""
        return _sum(self._living.values())

    def at(self, moment: int) -> Bytes:
        """What was held after moment number ``moment``."""
        return _sum(life for life in self.lives if life.born <= moment and (life.died is None or life.died > moment))

    def changes(self) -> Iterator[tuple[Moment, Bytes]]:
        """Every moment after which something else was held than before, and what."""
        steps: dict[int, dict[str, int]] = {}
        for life in self.lives:
            for moment, sign in ((life.born, 1), (life.died, -1)):
                if moment is not None:
                    step = steps.setdefault(moment, dict.fromkeys(CATEGORIES, 0))
                    step[life.held_as] += sign * life.nbytes
        held, moments = dict.fromkeys(CATEGORIES, 0), [*self.moments, Moment("", "after")]
        for moment in sorted(steps):
            if any(steps[moment].values()):
                held = {kind: held[kind] + steps[moment][kind] for kind in CATEGORIES}
                yield moments[moment], Bytes(**held)

    def stop(self) -> None:
        """Deaths from now on are not noted."""
        self._watchers.clear()

    def _gone(self, key: int) -> None:
        # An address is used again once its storage is gone.
        life = self._living.pop(key, None)
        self._watchers.pop(key, None)
        if life is not None:
            life.died = len(self.moments)
            self.total -= life.nbytes


def _sum(lives: Iterable[Lifetime]) -> Bytes:
    held = dict.fromkeys(CATEGORIES, 0)
    for life in lives:
        held[life.held_as] += life.nbytes
    return Bytes(**held)
