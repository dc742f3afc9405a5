"""A pool of instances, replayed second by second over a trace of arrivals: how long requests wait, and what is paid unused.

An instance serves one request at a time. One that is started is ready ``cold`` seconds later, and is paid for from the start.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil

Decide = Callable[[dict], int]
"""From what is seen in a second, the number of instances to have: ready ones and starting ones together."""


@dataclass
class Pool:
    """Instances and waiting requests at the beginning of a second.

    ``cold`` and ``service``: seconds that a start and a request take, 1 or more. ``starts``: instances started so far.
    """

    cold: int
    service: int
    idle: int = 0
    busy: deque = field(default_factory=deque)  # when each ends
    starting: deque = field(default_factory=deque)  # when each is ready
    waiting: deque = field(default_factory=deque)  # when each came
    now: int = 0
    starts: int = 0
    unused: int = 0  # instance-seconds, idle or starting
    waits: list = field(default_factory=list)

    @property
    def instances(self) -> int:
        return self.idle + len(self.busy) + len(self.starting)

    def seen(self, arrived: int) -> dict:
        """What a policy sees, and no more."""
        counts = {
            "busy": len(self.busy),
            "idle": self.idle,
            "starting": len(self.starting),
            "waiting": len(self.waiting),
        }
        return {"second": self.now, "arrived": arrived, **counts}

    def admit(self, arrived: int) -> None:
        """What has ended and become ready is idle; ``arrived`` come, and idle instances take the longest waiting."""
        while self.busy and self.busy[0] <= self.now:
            self.busy.popleft()
            self.idle += 1
        while self.starting and self.starting[0] <= self.now:
            self.starting.popleft()
            self.idle += 1
        self.waiting.extend([self.now] * arrived)
        while self.idle and self.waiting:
            self.idle -= 1
            self.waits.append(self.now - self.waiting.popleft())
            self.busy.append(self.now + self.service)

    def resize(self, target: int) -> None:
        """Start what is missing, or stop idle ones; then a request that no start is meant for starts its own instance."""
        self.idle -= max(0, min(self.idle, self.instances - target))
        missing = max(0, target - self.instances, len(self.waiting) - len(self.starting))
        self.starting.extend([self.now + self.cold] * missing)
        self.starts += missing

    def tick(self) -> None:
        self.unused += self.idle + len(self.starting)
        self.now += 1


@dataclass(frozen=True)
class Replay:
    """``waits``: seconds from arrival to begin, of each request. ``unused``: instance-seconds paid for while idle or starting."""

    waits: tuple[int, ...]
    unused: int
    starts: int
    sizes: tuple[int, ...]

    def percentile(self, percent: int) -> int:
        """The least wait that ``percent`` of a hundred requests, or more, do not exceed. 0 of no requests."""
        ordered = sorted(self.waits)
        return ordered[ceil(percent * len(ordered) / 100) - 1] if ordered else 0


def replay(decide: Decide, arrivals: Sequence[int], cold: int, service: int, settle: int = 0) -> Replay:
    """A policy over a trace; what still waits at the end is served with nobody else coming.

    The first ``settle`` seconds are played and not counted: neither waits of who comes in them, nor what is paid, nor starts.
    """
    pool, sizes, before = Pool(cold, service), [], (0, 0)
    for arrived in arrivals:
        if pool.now == settle:
            before = pool.unused, pool.starts
        pool.admit(arrived)
        pool.resize(decide(pool.seen(arrived)))
        sizes.append(pool.instances)
        pool.tick()
    unused, starts = pool.unused - before[0], pool.starts - before[1]
    while pool.waiting:
        pool.admit(0)
        pool.tick()
    return Replay(tuple(pool.waits[sum(arrivals[:settle]) :]), unused, starts, tuple(sizes))


def fixed(size: int) -> Decide:
    """The policy that always has so many."""
    return lambda seen: size


def keeping(arrivals: Sequence[int], cold: int, service: int, limit: int, settle: int = 0) -> int:
    """The least fixed size whose 99th percentile of waits is ``limit`` or less: in hindsight, for it is found on the trace."""
    low, high = 0, max((sum(arrivals[second : second + service]) for second in range(len(arrivals))), default=0)
    while low < high:
        middle = (low + high) // 2
        enough = replay(fixed(middle), arrivals, cold, service, settle).percentile(99) <= limit
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
