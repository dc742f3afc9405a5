"""What computes the tokens, where they are computed."""

from collections.abc import Sequence
from typing import Protocol

from gpulab.serving.clocks.clock import Work


class Model(Protocol):
    """Computes a step. Where no clock is given, the engine takes what ``elapsed_us`` says of it."""

    elapsed_us: float
    """How long the last step took, by the clock of its device."""
    modelled: bool
    """Whether that clock is a model's, as the virtual card's is."""

    def step(self, work: Sequence[Work]) -> list[int | None]:
        """The token that follows, for each request whose tokens are then all computed; None for the others.

        Tokens ``context`` to ``context + new`` of ``live.ids`` are new.
        """
        ...

    def copy(self, copies: Sequence[tuple[int, int]]) -> None:
        """Copy blocks of the cache, (source, target), one after the other. Asked only where the allocator wants it, before ``step``."""
        ...
