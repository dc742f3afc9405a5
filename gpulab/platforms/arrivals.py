"""Requests by the second, drawn from a seed: a steady load, a day, nights without any, and jobs that come by the clock."""

import random
from collections.abc import Callable
from math import cos, exp, pi


def _poisson(rng: random.Random, mean: float) -> int:
    """Knuth's: as many as fit before a product of uniform numbers falls below e to the minus mean."""
    left, count = exp(-mean), -1
    product = 1.0
    while product > left or count < 0:
        product *= rng.random()
        count += 1
    return count


def _drawn(seconds: int, seed: int, rate: Callable[[int], float]) -> list[int]:
    rng = random.Random(seed)
    return [_poisson(rng, rate(second)) for second in range(seconds)]


def steady(seconds: int, per_s: float, seed: int) -> list[int]:
    """Requests in each second, Poisson with one mean."""
    return _drawn(seconds, seed, lambda second: per_s)


def day(seconds: int, per_s: float, seed: int, least: float = 0.05) -> list[int]:
    """One wave over all seconds: ``least`` of ``per_s`` at both ends, ``per_s`` in the middle."""
    wave = lambda second: least + (1 - least) * (1 - cos(2 * pi * second / seconds)) / 2
    return _drawn(seconds, seed, lambda second: per_s * wave(second))


def quiet_nights(seconds: int, per_s: float, seed: int, busy: int, quiet: int) -> list[int]:
    """``busy`` seconds with requests and ``quiet`` without, in turn; a load climbs and falls over a third of its time each."""

    def rate(second: int) -> float:
        at = second % (busy + quiet)
        return per_s * max(0.0, min(1.0, 3 * at / busy, 3 * (busy - at) / busy))

    return _drawn(seconds, seed, rate)


def pulses(seconds: int, per_s: float, seed: int, every: int, size: int) -> list[int]:
    """A steady load, and ``size`` requests more in one second out of ``every``."""
    base = steady(seconds, per_s, seed)
    return [count + (size if second % every == every // 2 else 0) for second, count in enumerate(base)]
