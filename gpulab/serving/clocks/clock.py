"""The interface of a clock: how long a step takes, in microseconds."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gpulab.serving.requests import Live


class Work(NamedTuple):
    """Of one request in one step: ``new`` tokens are computed, after ``context`` tokens whose keys and values are there."""

    live: Live
    new: int
    context: int


class Clock(Protocol):
    """Says how long a step takes, from what is computed in it."""

    def step_us(self, work: Sequence[tuple[int, int]]) -> float:
        """Microseconds, more than 0. work: (new tokens, context tokens) of every request in the step."""
        ...
