"""What a job that saves checkpoints makes of its time: replayed failure by failure, and in closed form.

All times are in one unit. ``interval``: of work between two checkpoints; ``cost``: to write one, during which no work is done;
``up``: the mean time from the end of a restart to the next failure; ``restart``: from a failure until work goes on, without failures.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Replay(NamedTuple):
    """Where the time of a run went; the four parts are all of it."""

    useful: float
    saving: float
    lost: float
    restarting: float

    @property
    def wall(self) -> float:
        return sum(self)

    @property
    def share(self) -> float:
        """Of the time, what was useful."""
        return self.useful / self.wall

    @property
    def overhead(self) -> float:
        """Of every useful second, what it cost beside itself."""
        return self.wall / self.useful - 1 if self.useful else math.inf


def replay(interval: float, cost: float, restart: float, ups: Iterable[float], notice: float = 0.0) -> Replay:
    """A run through up times that each end in a failure.

    Of an up time the whole rounds of work and checkpoint count; what is behind the last of them is lost. Where a failure is
    announced by ``notice`` and a checkpoint takes no longer, a last one is written before it.
    """
    useful = saving = lost = restarting = 0.0
    for up in ups:
        rounds = int(up // (interval + cost))
        rest = up - rounds * (interval + cost)
        saved = min(interval, rest - cost) if cost <= notice and rest > cost else 0.0
        useful += rounds * interval + saved
        saving += rounds * cost + (cost if saved else 0.0)
        lost += rest - saved - (cost if saved else 0.0)
        restarting += restart
    return Replay(useful, saving, lost, restarting)


def useful_share(interval: float, cost: float, up: float, restart: float) -> float:
    """Of the time, what is useful in the long run, where up times are exponential.

    An up time holds 1 / (e^((interval + cost) / up) - 1) whole rounds on average: it is geometric whether the next one fits.
    """
    if math.isinf(up):
        return 1.0 if math.isinf(interval) else interval / (interval + cost)
    return interval / math.expm1((interval + cost) / up) / (up + restart)


def young(cost: float, up: float) -> float:
    """The interval that is best where a checkpoint is short against an up time: Young's first-order approximation."""
    return math.sqrt(2 * cost * up)


def daly(cost: float, up: float) -> float:
    """Daly's higher-order estimate of the best interval."""
    if cost >= 2 * up:
        return up
    ratio = cost / (2 * up)
    return math.sqrt(2 * cost * up) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost


def best_interval(cost: float, up: float) -> float:
    """Where :func:`useful_share` is largest: e^((interval + cost) / up) (1 - interval / up) is 1 there, found by halving."""
    low, high = 0.0, up
    for _ in range(80):
        middle = (low + high) / 2
        if math.log1p(-middle / up) + (middle + cost) / up > 0:
            low = middle
        else:
            high = middle
    return low
