"""Which kernels can run side by side: small ones from several streams, not large ones."""

from collections import deque

from gpulab.cards.cards import Card
from gpulab.cards.multiprocessors import multiprocessor


class Multiprocessors:
    """The card's multiprocessors, shared by kernels in the order in which they were launched.

    A kernel holds the share of the card that its threads fill, at least one multiprocessor,
    from start to end; it starts as soon as that share is free for its whole run.
    """

    def __init__(self, card: Card) -> None:
        self._capacity = card.multiprocessors * multiprocessor(card.capability).max_threads
        self._least = 1 / card.multiprocessors
        self._running: deque[tuple[int, float, float, float]] = deque()
        self._alone_from, self._alone_until, self._alone_threads = 0.0, -1.0, 0

    def start_alone(self, begin: float, duration: float, threads: int) -> float:
        """When a kernel of the first stream, while there is no other, starts: at ``begin``; microseconds.

        Nothing can overlap: the newest run of kernels without a gap is all that a later stream needs.
        """
        if begin > self._alone_until:
            self._alone_from, self._alone_threads = begin, max(1, threads)
        elif threads > self._alone_threads:
            self._alone_threads = threads
        self._alone_until = begin + duration
        return begin

    def start(self, number: int, earliest: float, duration: float, threads: int, now_us: float) -> float:
        """When a kernel that could start at ``earliest`` does, where there are several streams; microseconds.

        ``number``: its stream. ``now_us``: the host's clock, before which no later kernel starts.
        """
        if self._alone_threads:
            self._running.append((0, self._alone_from, self._alone_until, self._share(self._alone_threads)))
            self._alone_threads = 0
        share = self._share(threads)
        self._forget_before(now_us)
        begin = self._first_gap(number, earliest, duration, share)
        self._running.append((number, begin, begin + duration, share))
        return begin

    def _first_gap(self, number: int, earliest: float, duration: float, share: float) -> float:
        others = [k for k in self._running if k[0] != number and k[2] > earliest]
        if not others:
            return earliest
        for begin in sorted({earliest, *(k[2] for k in others)}):
            overlapping = [k for k in others if k[1] < begin + duration and k[2] > begin]
            if _peak_share(overlapping) + share <= 1.0 + 1e-9:
                return begin
        raise AssertionError("after the last kernel the card is free")

    def _share(self, threads: int) -> float:
        return min(1.0, max(self._least, threads / self._capacity))

    def _forget_before(self, time_us: float) -> None:
        while self._running and self._running[0][2] <= time_us:
            self._running.popleft()


def _peak_share(kernels: list[tuple[int, float, float, float]]) -> float:
    return max((sum(k[3] for k in kernels if k[1] <= at[1] < k[2]) for at in kernels), default=0.0)
