"""What a loop over a DataLoader waited for: PyTorch's iterators are watched while some block is open, and only then."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch

from gpulab.compat.dispatch import mode_count, pop_mode
from gpulab.compat.loading import (
    GET_DATA,
    NEXT_IN_PROCESS,
    PIN_MEMORY_LOOP,
    WORKER_LOOP,
    BaseIterator,
    InProcessIterator,
    StopOfADataset,
    WorkersIterator,
)
from gpulab.observe import device
from gpulab.observe.errors import InstrumentError
from gpulab.observe.lines import learners_line
from gpulab.observe.loader_worker import Slots, Times, sample_count, timed_pin_loop, timed_worker_loop
from gpulab.observe.records import Batch


class LoaderLog:
    """The batches that were taken from DataLoaders while a block ran."""

    def __init__(self, tell: Callable[[str, object], None]) -> None:
        self._tell, self._began = tell, time.monotonic_ns()
        self._passes: WeakKeyDictionary = WeakKeyDictionary()
        self._begun = 0
        self.batches: list[Batch] = []
        self.lost = 0

    def taken(self, iterator: BaseIterator, number: int, moment: "_Moment") -> None:
        if number == 0 or iterator not in self._passes:
            self._passes[iterator] = self._begun
            self._begun += 1
        self.lost += moment.watched and moment.times is None
        batch = moment.batch(self._passes[iterator], number, iterator._num_workers, self._since)
        self._tell("batch", batch)
        self.batches.append(batch)

    def _since(self, ns: int) -> float:
        return (ns - self._began) / 1000

    def prove_seen(self) -> None:
        """Raises InstrumentError where a worker that was watched gave a batch and no times."""
        if self.lost:
            raise InstrumentError(
                f"observe() did not see what {self.lost} of {len(self.batches)} batches took in their workers, though it "
                "watched these: something replaced PyTorch's loop of a worker. Run the block again in a fresh kernel."
            )


class _Moment:
    """One call of ``next``: when the consumer asked and was given, what lay ready, and the batch's own times."""

    def __init__(self, queued: int | None) -> None:
        self.queued, self.line, self.watched = queued, learners_line(), False
        self.times: Times | None = None
        self.pinned: tuple[int, int] | None = None
        self.start: int | None = None
        self.asked = self.given = time.monotonic_ns()

    def batch(self, loader: int, number: int, workers: int, since: Callable[[int], float]) -> Batch:
        times, pinned = self.times, self.pinned
        return Batch(
            loader,
            number,
            workers,
            times.worker if times and workers else None,
            times.pid if times and workers else None,
            times.samples if times and times.samples >= 0 else None,
            (times.collating - times.begun) / 1000 if times else None,
            (times.ready - times.collating) / 1000 if times else None,
            (pinned[1] - pinned[0]) / 1000 if pinned else None,
            since(pinned[1] if pinned else times.ready) if times else None,
            since(self.asked),
            since(self.given),
            self.queued,
            None if self.start is None else self.start / 1000,
            self.line,
        )


class _Watch:
    """What is known of a loader's workers, beside the iterator that started them."""

    def __init__(self, slots: Slots) -> None:
        self.slots, self.pinned = slots, {}
        self.start: int | None = None
        self.arrived: int | None = None

    def queued(self, iterator: WorkersIterator) -> int:
        """Batches that are done, pinned where they are to be, and not taken."""
        done = self.pinned.__contains__ if iterator._pin_memory else lambda task: self.slots.read(task) is not None
        return sum(done(task) for task in list(iterator._task_info))

    def taken(self, iterator: WorkersIterator, moment: _Moment) -> None:
        task = self.arrived
        if task is None or task in iterator._task_info:
            task = iterator._rcvd_idx - 1
        moment.times, moment.pinned = self.slots.read(task), self.pinned.pop(task, None)
        moment.start, self.start = self.start, None


_logs: list[LoaderLog] = []
_watches: WeakKeyDictionary = WeakKeyDictionary()
_starting = threading.Lock()
_next, _get_data = BaseIterator.__next__, GET_DATA.value
_start, _next_data = WorkersIterator.__init__, NEXT_IN_PROCESS.value


@contextmanager
def watching(log: LoaderLog) -> Iterator[None]:
    """Batches taken inside the block are written into ``log``."""
    if not _logs:
        _patch(_watched_next, _watched_get, _watched_start)
    _logs.append(log)
    try:
        yield
    finally:
        _logs.remove(log)
        if not _logs:
            _patch(_next, _get_data, _start)


def forget() -> None:
    """In a worker: the blocks that are open are those of the process that started it."""
    _logs.clear()
    device.forget()
    _patch(_next, _get_data, _start)
    for _ in range(mode_count()):
        pop_mode()


def _patch(step: Callable, get: Callable, start: Callable) -> None:
    BaseIterator.__next__ = step
    GET_DATA.set(get)
    WorkersIterator.__init__ = start


@functools.wraps(_start)
def _watched_start(self, loader):
    context = loader.multiprocessing_context or torch.multiprocessing
    watch = _Watch(Slots(context, loader.num_workers * loader.prefetch_factor))
    began = time.monotonic_ns()
    with _starting:
        loops = WORKER_LOOP.value, PIN_MEMORY_LOOP.value
        WORKER_LOOP.set(functools.partial(timed_worker_loop, watch.slots, forget))
        PIN_MEMORY_LOOP.set(functools.partial(timed_pin_loop, watch.pinned))
        try:
            _start(self, loader)
        finally:
            WORKER_LOOP.set(loops[0])
            PIN_MEMORY_LOOP.set(loops[1])
    watch.start = time.monotonic_ns() - began
    _watches[self] = watch


@functools.wraps(_get_data)
def _watched_get(self):
    task, data = _get_data(self)
    if self in _watches:
        _watches[self].arrived = None if isinstance(data, StopOfADataset) else task
    return task, data


@functools.wraps(_next)
def _watched_next(self):
    watch, number = _watches.get(self), self._num_yielded
    in_process = isinstance(self, InProcessIterator)
    moment = _Moment(0 if in_process else watch and watch.queued(self))
    if watch:
        watch.arrived = None
    data = _next_here(self, moment) if in_process else _next(self)
    moment.given = time.monotonic_ns()
    if watch:
        moment.watched = True
        watch.taken(self, moment)
    for log in _logs:
        log.taken(self, number, moment)
    return data


def _next_here(iterator: InProcessIterator, moment: _Moment):
    """Without workers: the consumer makes its batch itself."""
    fetcher = iterator._dataset_fetcher
    collate, marks = fetcher.collate_fn, []

    def timed(samples):
        marks[:] = [sample_count(samples, iterator._auto_collation), time.monotonic_ns()]
        batch = collate(samples)
        marks.append(time.monotonic_ns())
        return batch

    fetcher.collate_fn = timed
    try:
        data = _next(iterator)
    finally:
        fetcher.collate_fn = collate
    ended = time.monotonic_ns()
    if len(marks) == 3:
        moment.times = Times(-1, -1, marks[0], moment.asked, marks[1], marks[2])
        moment.pinned = (marks[2], ended) if iterator._pin_memory else None
    return data
