"""What the job does when nothing is wrong, and what a repaired one has to reach."""

from collections.abc import Sequence
from functools import cache

from gpulab.capstone.job import Job
from gpulab.capstone.remembered import Remembered
from gpulab.capstone.report import Report

SLACK, SAME = 1.02, 1 / 500
"""A target is what the healthy job takes, times the first. Losses that differ by less than the second are equal."""


@cache
def healthy() -> Report:
    """Of the job with nothing wrong, on the virtual card."""
    return Remembered(Job()).run()


def targets() -> dict[str, float]:
    """For every figure the most that is allowed on the virtual card."""
    return {name: SLACK * value for name, value in healthy().figures.items()}


def same_losses(losses: Sequence[float], due: Sequence[float]) -> bool:
    """Whether they differ by rounding alone: each by less than :data:`SAME` of what is due."""
    return len(losses) == len(due) and all(abs(loss - right) <= SAME * abs(right) for loss, right in zip(losses, due))
