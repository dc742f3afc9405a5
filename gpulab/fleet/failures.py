"""When the machines of a training job fail, at the rate that Llama 3's run was interrupted."""

import random
from typing import NamedTuple

from gpulab.fleet.constants import LLAMA3_DAYS, LLAMA3_GPUS, LLAMA3_UNEXPECTED


class Failure(NamedTuple):
    """``at_h``: hours after the start; ``gpu``: of those from 0 on, the one whose server it is."""

    at_h: float
    component: str
    gpu: int


def hours_between(gpus: int) -> float:
    """The mean time between two failures of a job on so many GPUs, where each GPU brings its part of them."""
    if gpus < 1:
        raise ValueError(f"{gpus} GPUs have no failures")
    return LLAMA3_DAYS * 24 * LLAMA3_GPUS / sum(one.count for one in LLAMA3_UNEXPECTED) / gpus


def failures(gpus: int, hours: float, seed: int) -> list[Failure]:
    """Failures in order of time: a Poisson process, a component drawn by its count for each."""
    rng, mean, at, found = random.Random(seed), hours_between(gpus), 0.0, []
    counts = [one.count for one in LLAMA3_UNEXPECTED]
    while (at := at + rng.expovariate(1 / mean)) < hours:
        (cause,) = rng.choices(LLAMA3_UNEXPECTED, counts)
        found.append(Failure(at, cause.component, rng.randrange(gpus)))
    return found


def up_times(mean: float, count: int, seed: int) -> list[float]:
    """``count`` times until a failure, exponential, in the unit of their mean."""
    rng = random.Random(seed)
    return [rng.expovariate(1 / mean) for _ in range(count)]
