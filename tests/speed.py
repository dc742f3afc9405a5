"""How many times as long this machine computes, just now, as a quiet one: neighbours and a core's other thread take their share."""

import statistics
import time

QUIET_SECONDS = 0.0015
"""Of processor time for one piece of work: the fastest of two hundred on a machine with two cores, where half took 0.0019."""
_PIECES, _VALID_SECONDS = 5, 2.0


def piece_of_work() -> int:
    return sum(i * i for i in range(30_000))


def seconds_of_a_piece() -> float:
    began = time.process_time()
    piece_of_work()
    return time.process_time() - began


class Slowness:
    """Measured anew when it is two seconds old. Never less than 1: a fast machine makes nothing dearer."""

    def __init__(self, measure=seconds_of_a_piece) -> None:
        self._measure, self._at, self._times = measure, float("-inf"), 1.0

    def times(self) -> float:
        """As many times as long."""
        if time.monotonic() - self._at > _VALID_SECONDS:
            self._times = max(1.0, statistics.median(self._measure() for _ in range(_PIECES)) / QUIET_SECONDS)
            self._at = time.monotonic()
        return self._times
