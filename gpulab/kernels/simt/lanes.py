"""Sets of lanes: which threads take part in a step, and in how many warps."""

import numpy as np

from gpulab.observe.launches import WARP


class Mask:
    """Some of a group's lanes. Lanes come in whole warps: the last may hold lanes with no thread.

    ``lanes``: bool vector. ``active``: how many are set. ``index``: their positions, or None when
    all are set, so that a vector needs no gathering.
    """

    __slots__ = ("lanes", "active", "_warps", "_index")

    def __init__(self, lanes: np.ndarray) -> None:
        self.lanes = lanes
        self.active = int(np.count_nonzero(lanes))
        self._warps = self._index = None

    @property
    def warps(self) -> int:
        """Warps with a lane in the set."""
        if self._warps is None:
            full = self.active == len(self.lanes)
            self._warps = len(self.lanes) // WARP if full else int(np.count_nonzero(self.by_warp()))
        return self._warps

    def by_warp(self) -> np.ndarray:
        """For each warp, whether it has a lane in the set."""
        return self.lanes.reshape(-1, WARP).any(axis=1)

    @property
    def index(self) -> np.ndarray | None:
        if self._index is None and self.active < len(self.lanes):
            self._index = np.flatnonzero(self.lanes)
        return self._index

    def positions(self) -> np.ndarray:
        """Positions of the set lanes, in order."""
        return np.arange(len(self.lanes)) if self.index is None else self.index

    def __bool__(self) -> bool:
        return self.active > 0

    def where(self, condition) -> "Mask":
        """The lanes of this set for which ``condition`` (a scalar or a vector) holds."""
        if np.ndim(condition) == 0:
            return self if condition else self.none()
        found = self.lanes & as_bool(condition)
        return self._or_self(found)

    def minus(self, other: "Mask") -> "Mask":
        """The lanes of this set that are not in ``other``."""
        if not other.active:
            return self
        return self.none() if other is self else self._or_self(self.lanes & ~other.lanes)

    def plus(self, other: "Mask") -> "Mask":
        """The lanes of either set."""
        if not other.active or other is self:
            return self
        return Mask(self.lanes | other.lanes) if self.active else other

    def none(self) -> "Mask":
        return Mask(np.zeros(len(self.lanes), dtype=bool))

    def _or_self(self, lanes: np.ndarray) -> "Mask":
        found = Mask(lanes)
        return self if found.active == self.active else found


def as_bool(value):
    """A number or a vector of numbers as Python would take it in an ``if``."""
    return value if value.dtype == bool else value != 0


def compact(value, mask: Mask, lanes: int) -> np.ndarray:
    """The values of ``mask``'s lanes only; a scalar once for each of them."""
    if np.ndim(value) == 0:
        return np.full(mask.active, value)
    return value if mask.index is None else value[mask.index]


def spread(values: np.ndarray, mask: Mask) -> np.ndarray:
    """The inverse of :func:`compact`: a vector over all lanes; lanes outside hold zeros."""
    if mask.index is None:
        return values
    out = np.zeros(len(mask.lanes), dtype=values.dtype)
    out[mask.index] = values
    return out
