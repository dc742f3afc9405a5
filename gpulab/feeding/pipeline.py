"""PyTorch's ``DataLoader``, batch by batch: who makes it, when it is done, when the loop asks for it and has it.

Batches go to the workers in turn and to the loop in order. As many are under way, or done and not taken, as there are
workers times ``prefetch``; the next index is sent when a batch is taken. Cores are shared equally among the workers
that compute. The loop, the pinning thread and the device take no core from them.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from gpulab.feeding.stages import Loader, Stages

AHEAD = 3
"""With ``overlap``, so many batches are between the loop and the end of their step: one copied, one decoded, one in its step."""


class Turn(NamedTuple):
    """Of one batch, in milliseconds since the loop began.

    ``worker``: -1 without workers. ``begun``: its worker took it up. ``ready``: it was done, and pinned. ``asked``,
    ``given``: by and to the loop. ``started``, ``ended``: its step on the device.
    """

    worker: int
    begun: float
    ready: float
    asked: float
    given: float
    started: float
    ended: float


def simulate(batches: Sequence[Stages], loader: Loader) -> list[Turn]:
    """When each of ``batches`` is where, in order. What starting the workers takes is not counted."""
    loop = _Loop(loader.overlap)
    if loader.workers:
        return _Workers(batches, loader, loop).run()
    turns = []
    for stages in batches:
        ready = loop.asks + stages.fetch + stages.decode + stages.collate + stages.pin
        turns.append(loop.take(stages, -1, loop.asks, ready))
    return turns


def rate(turns: Sequence[Turn]) -> float:
    """Batches a second over the second half, when the start is forgotten."""
    first, last = turns[len(turns) // 2], turns[-1]
    return 1000 * (len(turns) - 1 - len(turns) // 2) / (last.ended - first.ended)


def idle(turns: Sequence[Turn]) -> float:
    """The share of the second half in which no step ran on the device."""
    half = len(turns) // 2
    busy = sum(turn.ended - turn.started for turn in turns[half + 1 :])
    return 1 - busy / (turns[-1].ended - turns[half].ended)


class _Loop:
    """The consumer: the training loop and the device below it."""

    def __init__(self, overlap: bool) -> None:
        self._overlap = overlap
        self.asks = self._copied = self._decoded = self._stepped = 0.0
        self._ends: deque[float] = deque(maxlen=AHEAD)

    def take(self, stages: Stages, worker: int, begun: float, ready: float) -> Turn:
        asked, given = self.asks, max(self.asks, ready)
        self._copied = max(given, self._copied) + stages.transfer
        self._decoded = max(self._copied, self._decoded) + stages.engine
        started = max(self._decoded, self._stepped)
        self._stepped = started + stages.step
        self._ends.append(self._stepped)
        ahead = self._ends[0] if len(self._ends) == AHEAD else 0.0
        self.asks = max(given, ahead) if self._overlap else self._stepped
        return Turn(worker, begun, ready, asked, given, started, self._stepped)


class _Workers:
    """Workers under way: each waits for storage, then computes on a share of the cores."""

    def __init__(self, batches: Sequence[Stages], loader: Loader, loop: _Loop) -> None:
        self._batches, self._loader, self._loop = batches, loader, loop
        self._tasks = [deque() for _ in range(loader.workers)]
        self._fetching = [0.0] * loader.workers
        self._computing = [0.0] * loader.workers
        self._begun: dict[int, float] = {}
        self._ready: dict[int, float] = {}
        self._sends: deque[float] = deque()
        self._sent = 0
        self._now = self._pinned = 0.0
        self._turns: list[Turn] = []

    def run(self) -> list[Turn]:
        for _ in range(self._loader.workers * self._loader.prefetch):
            self._send()
        while len(self._turns) < len(self._batches):
            self._advance()
        return self._turns

    def _send(self) -> None:
        if self._sent == len(self._batches):
            return
        worker = self._sent % self._loader.workers
        self._tasks[worker].append(self._sent)
        self._sent += 1
        if len(self._tasks[worker]) == 1:
            self._begin(worker)

    def _begin(self, worker: int) -> None:
        task = self._tasks[worker][0]
        stages, self._begun[task] = self._batches[task], self._now
        self._fetching[worker], self._computing[worker] = stages.fetch, stages.decode + stages.collate

    def _advance(self) -> None:
        """To the next moment at which a worker changes what it does, or an index is sent."""
        busy = [worker for worker, tasks in enumerate(self._tasks) if tasks]
        computing = [worker for worker in busy if not self._fetching[worker]]
        share = min(1.0, self._loader.cores / len(computing)) if computing else 1.0
        ends = {w: self._now + (self._fetching[w] or self._computing[w] / share) for w in busy}
        until = min([*ends.values(), *list(self._sends)[:1]])
        passed, self._now = until - self._now, until
        for worker in busy:
            self._work(worker, passed, share, ends[worker] <= until)
        while self._sends and self._sends[0] <= self._now:
            self._sends.popleft()
            self._send()

    def _work(self, worker: int, passed: float, share: float, ends: bool) -> None:
        if self._fetching[worker]:
            self._fetching[worker] = 0.0 if ends else self._fetching[worker] - passed
            return
        self._computing[worker] -= passed * share
        if ends:
            self._done(worker)

    def _done(self, worker: int) -> None:
        task = self._tasks[worker].popleft()
        self._pinned = max(self._now, self._pinned) + self._batches[task].pin
        self._ready[task] = self._pinned
        if self._tasks[worker]:
            self._begin(worker)
        while (number := len(self._turns)) in self._ready:
            made_by = number % self._loader.workers
            turn = self._loop.take(self._batches[number], made_by, self._begun[number], self._ready[number])
            self._turns.append(turn)
            self._sends.append(turn.given)
