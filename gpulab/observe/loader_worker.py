"""What runs inside a DataLoader's worker and its pinning thread while somebody observes: stopwatches around PyTorch's loops.

A worker writes into memory that it shares with the consumer, a slot for each task under way. Nothing is added to what
it sends, no lock is held while it writes, and a worker that dies has spoilt nothing but its own slot.
"""

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from gpulab.compat.loading import PIN_MEMORY_LOOP, WORKER_LOOP, ExceptionWrapper, ResumeIteration, StopOfADataset

_worker_loop, _pin_memory_loop = WORKER_LOOP.value, PIN_MEMORY_LOOP.value
_ARGUMENTS = ("dataset_kind", "dataset", "index_queue", "data_queue", "done_event", "auto_collation", "collate_fn")
_WORKER = 10
"""Which argument of the loop is the worker's number."""


class Times(NamedTuple):
    """Of one batch, in nanoseconds of the system's monotonic clock. ``samples``: -1 where it is not known."""

    worker: int
    pid: int
    samples: int
    begun: int
    collating: int
    ready: int


class Slots:
    """Shared memory: the times of task ``i`` stand in slot ``i`` modulo their number."""

    _FIELDS = 1 + len(Times._fields)

    def __init__(self, context: Any, tasks: int) -> None:
        self._count = 4 * tasks + 16
        self._cells = context.RawArray("q", self._count * self._FIELDS)

    def write(self, task: int, times: Times) -> None:
        at = self._at(task)
        self._cells[at + 1 : at + self._FIELDS] = times
        self._cells[at] = task + 1

    def read(self, task: int) -> Times | None:
        """None where the task is not done."""
        at = self._at(task)
        return Times(*self._cells[at + 1 : at + self._FIELDS]) if self._cells[at] == task + 1 else None

    def clear(self, worker: int) -> None:
        """Forget what this worker wrote: tasks count from 0 again."""
        for at in range(0, len(self._cells), self._FIELDS):
            if self._cells[at] and self._cells[at + 1] == worker:
                self._cells[at] = 0

    def _at(self, task: int) -> int:
        return task % self._count * self._FIELDS


class _Stopwatch:
    """Stands where a worker finds its queue of tasks, its collate function and its queue of results, in turn."""

    def __init__(
        self, slots: Slots, worker: int, pid: int, tasks: Any, collate: Callable, results: Any, batches: bool
    ) -> None:
        self._slots, self._worker, self._pid, self._batches = slots, worker, pid, batches
        self._tasks, self._collate, self._results = tasks, collate, results
        self._begun = self._collating = 0
        self._samples = -1

    def get(self, *args, **kwargs):
        task = self._tasks.get(*args, **kwargs)
        if isinstance(task, ResumeIteration):
            self._slots.clear(self._worker)
        self._begun = self._collating = time.monotonic_ns()
        return task

    def __call__(self, samples):
        self._collating = time.monotonic_ns()
        self._samples = sample_count(samples, self._batches)
        return self._collate(samples)

    def put(self, result) -> None:
        number, data = result
        if isinstance(number, int) and not isinstance(data, (StopOfADataset, ExceptionWrapper)):
            times = Times(self._worker, self._pid, self._samples, self._begun, self._collating, time.monotonic_ns())
            self._slots.write(number, times)
        self._results.put(result)

    def __getattr__(self, name: str):
        return getattr(self._results, name)


def sample_count(samples: Any, batches: bool) -> int:
    if not batches:
        return 1
    return len(samples) if hasattr(samples, "__len__") else -1


def timed_worker_loop(slots: Slots, forget: Callable[[], None], *args) -> None:
    """PyTorch's own loop of a worker, with a stopwatch. ``forget``: what the process that started this one observes."""
    forget()
    given = dict(zip(_ARGUMENTS, args, strict=False))
    tasks, results, batches = given["index_queue"], given["data_queue"], given["auto_collation"]
    watch = _Stopwatch(slots, args[_WORKER], os.getpid(), tasks, given["collate_fn"], results, batches)
    given |= {"index_queue": watch, "data_queue": watch, "collate_fn": watch}
    _worker_loop(*given.values(), *args[len(_ARGUMENTS) :])


class _PinWatch:
    """Stands where the pinning thread finds the queue it reads, and the queue it fills."""

    def __init__(self, pinned: dict[int, tuple[int, int]], arriving: Any, leaving: Any) -> None:
        self._pinned, self._arriving, self._leaving, self._begun = pinned, arriving, leaving, 0

    def get(self, *args, **kwargs):
        arrived = self._arriving.get(*args, **kwargs)
        if isinstance(arrived[0], ResumeIteration):
            self._pinned.clear()
        self._begun = time.monotonic_ns()
        return arrived

    def put(self, result, *args, **kwargs) -> None:
        ended = time.monotonic_ns()
        if isinstance(result[0], int):
            self._pinned[result[0]] = (self._begun, ended)
        self._leaving.put(result, *args, **kwargs)


def timed_pin_loop(pinned: dict[int, tuple[int, int]], arriving: Any, leaving: Any, *args) -> None:
    """PyTorch's own loop of the pinning thread, with a stopwatch: of each task, when pinning began and ended."""
    watch = _PinWatch(pinned, arriving, leaving)
    _pin_memory_loop(watch, watch, *args)
