"""A loader with its worker processes, played event by event: what its rate comes to, with no formula for it."""

import heapq
from collections import deque
from collections.abc import Sequence

Stage = tuple[str, str, str, float]
"""Name, where it runs (``wait``, ``core``, ``main``, ``device``), for each what (``sample``, ``batch``), seconds."""
WARM, WATCHED = 12, 24
"""Batches of each worker before the clock is read, and until it is read again."""


def seconds_of(stages: Sequence[Stage], batch: int, *places: str) -> float:
    """Of one batch, in these places."""
    return sum(seconds * (batch if per == "sample" else 1) for _, where, per, seconds in stages if where in places)


def played_rate(stages: Sequence[Stage], batch: int, workers: int, cores: int, prefetch: int) -> float:
    """Batches a second that the consumer takes once the start is over."""
    if not workers:
        return 1 / seconds_of(stages, batch, "wait", "core", "main", "device")
    takes = _Loader(stages, batch, workers, cores, prefetch).takes((WARM + WATCHED) * workers + 1)
    return WATCHED * workers / (takes[-1] - takes[WARM * workers])


class _Loader:
    """Worker k % workers makes batch k, one after the other; the consumer takes batches in order and asks for one more at each."""

    def __init__(self, stages: Sequence[Stage], batch: int, workers: int, cores: int, prefetch: int) -> None:
        self._steps = [step for _ in range(batch) for step in _steps(stages, "sample")] + _steps(stages, "batch")
        self._period = seconds_of(stages, batch, "main", "device")
        self._asked = prefetch * workers
        self._free, self._queue = cores, deque()
        self._at = [[worker, 0] for worker in range(workers)]  # its batch, and which of its steps comes next
        self._idle: set[int] = set()
        self._events: list[tuple[float, int, bool, int]] = []  # time, worker, whether it held a core; -1: the consumer
        self._ready: set[int] = set()

    def takes(self, batches: int) -> list[float]:
        """When the consumer takes each batch."""
        takes: list[float] = []
        consumer_free = True
        for worker in range(len(self._at)):
            self._go_on(worker, 0.0)
        while len(takes) < batches:
            now, worker, held, _ = heapq.heappop(self._events)
            if worker < 0:
                consumer_free = True
            else:
                self._step_over(worker, held, now)
            if consumer_free and len(takes) in self._ready:
                consumer_free = False
                self._taken(len(takes), now)
                takes.append(now)
        return takes

    def _taken(self, batch: int, now: float) -> None:
        self._ready.remove(batch)
        self._asked += 1
        heapq.heappush(self._events, (now + self._period, -1, False, 0))
        for worker in sorted(self._idle):
            self._idle.discard(worker)
            self._go_on(worker, now)

    def _step_over(self, worker: int, held: bool, now: float) -> None:
        if held:
            self._free += 1
        self._go_on(worker, now)
        while self._queue and self._free:
            self._begin(self._queue.popleft(), now)

    def _go_on(self, worker: int, now: float) -> None:
        batch, step = self._at[worker]
        if step == len(self._steps):
            self._ready.add(batch)
            batch, step = self._at[worker] = [batch + len(self._at), 0]
        if batch >= self._asked:
            self._idle.add(worker)
        elif self._steps[step][0] and (self._queue or not self._free):
            self._queue.append(worker)
        else:
            self._begin(worker, now)

    def _begin(self, worker: int, now: float) -> None:
        on_core, seconds = self._steps[self._at[worker][1]]
        self._free -= on_core
        self._at[worker][1] += 1
        heapq.heappush(self._events, (now + seconds, worker, on_core, self._at[worker][0]))


def _steps(stages: Sequence[Stage], of: str) -> list[tuple[bool, float]]:
    return [(where == "core", seconds) for _, where, per, seconds in stages if per == of and where in ("wait", "core")]
