"""When a collective starts and ends: where the ranks' clocks meet."""

from collections.abc import Hashable, Sequence
from typing import Protocol


class Carrier(Protocol):
    """What carries the bytes, as the clocks ask it: :class:`gpulab.collectives.network.Network`, or anything like it."""

    def duration_us(self, operation: str, nbytes: int, ranks: Sequence[int]) -> float:
        """Microseconds that ``operation`` takes once all ``ranks`` are there.

        operation: as in :class:`gpulab.observe.Collective`, ``send`` for a message. nbytes: of the whole, as
        there. ranks: by their numbers in the whole job, which say what node each is on.
        """


class Instant:
    """No network: what crosses takes no time. Bytes and order are counted all the same."""

    def duration_us(self, operation: str, nbytes: int, ranks: Sequence[int]) -> float:
        return 0.0


class Clocks:
    """Each communicator's clock: one collective after another. Those of different communicators share nothing.

    That they share a port of a node would depend on which of them comes first, and that differs from run to run.
    """

    def __init__(self, network: Carrier) -> None:
        self._network = network
        self._ends: dict[Hashable, float] = {}

    def meet(
        self, communicator: Hashable, operation: str, nbytes: int, ranks: Sequence[int], ready_us: Sequence[float]
    ) -> tuple[float, float]:
        """When it starts, the last rank being ready and the communicator free, and when it ends."""
        earliest = max(*ready_us, self._ends.get(communicator, 0.0))
        end = earliest + self._network.duration_us(operation, nbytes, ranks)
        self._ends[communicator] = end
        return earliest, end
