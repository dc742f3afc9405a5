"""A clock with three constants: microseconds for a step, for each token and for each token of context."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """``step`` microseconds for every step, ``token`` for each that it computes, ``context`` for each that these look back at.

    No card's: what a policy does can be followed by head. Raises ValueError unless a step takes time.
    """

    step: float = 1000.0
    token: float = 10.0
    context: float = 0.0

    def __post_init__(self) -> None:
        if min(self.step, self.token, self.context) < 0 or self.step + self.token <= 0:
            raise ValueError(f"a step takes time: {self}")

    def step_us(self, work: Sequence[tuple[int, int]]) -> float:
        """work: (new tokens, context tokens) of every request. A token looks back at the context and the new ones before it."""
        back = sum(new * context + new * (new - 1) // 2 for new, context in work)
        return self.step + self.token * sum(new for new, _ in work) + self.context * back
