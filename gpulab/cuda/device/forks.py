"""The streams that a capture has spread to."""

from gpulab.cuda.machine.order import merge


class Forks:
    """Which streams are in a capture, by number, and whose work each of them comes after.

    A stream joins by waiting for an event of the capture. For each stream there is a vector clock: how many
    operations of every stream it comes after, its own among them.
    """

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self._clocks: dict[int, dict[int, int]] = {origin: {}}

    def __contains__(self, stream: int) -> bool:
        return stream in self._clocks

    def work(self, stream: int) -> None:
        """One more operation in ``stream``."""
        clock = self._clocks[stream]
        clock[stream] = clock.get(stream, 0) + 1

    def point(self, stream: int) -> dict[int, int]:
        """Where ``stream`` stands, as an event records it."""
        return dict(self._clocks[stream])

    def wait(self, stream: int, point: dict[int, int]) -> None:
        """``stream`` goes on after ``point``, and is in the capture from now on."""
        merge(self._clocks.setdefault(stream, {}), point)

    def unjoined(self) -> bool:
        """Whether there is work that the stream where the capture began does not come after."""
        seen = self._clocks[self.origin]
        return any(clock.get(stream, 0) > seen.get(stream, 0) for stream, clock in self._clocks.items())
