"""What is kept of a function that lost points, where a misconception may be named later."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unexplained:
    """What a function lost, kept so that known wrong ones can be played with the same cases later, and name the misconception.

    ``seed``: of the draw. ``facts``: see :class:`autograder.judge.observed.Observed`.
    """

    seed: int
    facts: dict[str, list[str]]
