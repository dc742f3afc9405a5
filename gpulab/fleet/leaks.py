"""Machines that are started for an experiment and forgotten."""

import random
from typing import NamedTuple


class Held(NamedTuple):
    """Hours of machines: ``used``, and held ``idle`` after their use."""

    used: float
    idle: float


def forgotten(count: int, share: float, seed: int) -> list[tuple[float, float]]:
    """Machines, drawn: hours of use, and for how many hours each would stay after that if nobody ended it, which is 0 for most.

    ``share`` of them are forgotten until somebody looks, up to a week later.
    """
    rng = random.Random(seed)
    return [(rng.uniform(1, 12), rng.uniform(12, 168) if rng.random() < share else 0.0) for _ in range(count)]


def held(machines: list[tuple[float, float]], ttl: float = float("inf")) -> Held:
    """What they cost where a tag ends each machine ``ttl`` hours after its last use."""
    return Held(sum(used for used, _ in machines), sum(min(stays, ttl) for _, stays in machines))
