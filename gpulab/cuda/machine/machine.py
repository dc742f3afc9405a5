"""The machine: a host clock, a queue per stream, copy engines, and the vector clocks that order their work."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import contextmanager

from gpulab.cards import constants as assumed
from gpulab.cards.cards import Card
from gpulab.cuda.machine.allocator import Allocator
from gpulab.cuda.machine.blocks import Block
from gpulab.cuda.machine.multiprocessors import Multiprocessors
from gpulab.cuda.machine.order import ALL, HOST, WHOLE, Access, AccessHistory, Extent, access_of, merge


class Queue:
    """An in-order queue of work: a stream. ``ready_us``: the end of its newest work, in microseconds.

    ``vector_clock``: by queue, the newest epoch known to have ended before its next work. ``communicates``: it belongs
    to a communicator and holds no kernels of the program.
    """

    __slots__ = ("number", "priority", "communicates", "ready_us", "epoch", "vector_clock", "host_version")

    def __init__(self, number: int, priority: int = 0, communicates: bool = False) -> None:
        self.number, self.priority, self.communicates = number, priority, communicates
        self.ready_us, self.epoch = 0.0, 0
        self.vector_clock: dict[int, int] = {}
        self.host_version = -1


class EventSnapshot:
    """A point in a queue, as a CUDA event records it: its time in microseconds and the vector clock there."""

    __slots__ = ("time_us", "vector_clock")

    def __init__(self, time_us: float, vector_clock: dict[int, int]) -> None:
        self.time_us, self.vector_clock = time_us, vector_clock

    def is_before(self, clock: dict[int, int]) -> bool:
        """Whether whoever has this vector clock has seen the point pass."""
        return all(clock.get(queue, 0) >= epoch for queue, epoch in self.vector_clock.items())


class _Thread(threading.local):
    """Of each thread of the host: the queue that its work goes into; None for the first one."""

    queue: Queue | None = None


def staging_us(nbytes: int) -> float:
    """Microseconds of the host for one copy of ``nbytes`` into page-locked memory, or out of it."""
    return nbytes / assumed.PAGEABLE_BYTES_PER_S * 1e6


class Machine:
    """One card and its host. Time is in microseconds and moves only by what is modelled."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.host_us = 0.0
        self.host_vector_clock: dict[int, int] = {}
        self.host_epoch = 0
        self._host_version = 0
        self.queues = {0: Queue(0)}
        self._pools: dict[int, deque[Queue]] = {}
        self._thread = _Thread()
        self.engines = {"HtoD": 0.0, "DtoH": 0.0}
        self.logs: list = []
        self.find_line: Callable[[], object] = lambda: None
        self.uses: Callable[..., tuple[AccessHistory, Extent]] = lambda accesses, tensor: (accesses, ALL)
        self.on_unsafe_wait: Callable[[], None] | None = None
        self.refuse_wait: Callable[[], None] | None = None
        self.on_wait: Callable[[str, int | None], None] = lambda reason, queue: None
        self.captured: Callable[..., None] | None = None
        self.on_switch: Callable[[], None] | None = None
        self.replaying = False
        self._polls_since_us: float | None = None
        self.before_wait: list[Callable[[], None]] = []
        self.before_seen: list[Callable[[], None]] = []
        self.after_wait: list[Callable[[], None]] = []
        self._multiprocessors = Multiprocessors(card)
        self.allocator = Allocator(
            card.memory_bytes, self._malloc_cost, self.wait_device, self.mark_of, self.has_passed
        )

    # ---- streams and marks

    @property
    def current(self) -> Queue:
        """Where this thread's work goes."""
        return self._thread.queue or self.queues[0]

    @current.setter
    def current(self, queue: Queue) -> None:
        self._thread.queue = queue
        if self.on_switch is not None:
            self.on_switch()

    def queue_from_pool(self, priority: int = 0) -> Queue:
        """The next of the 32 queues of this priority, in turn: the 33rd asked for is the first again."""
        pool = self._pools.setdefault(priority, deque())
        if len(pool) < assumed.QUEUES_PER_POOL:
            queue = self._another(Queue(len(self.queues), priority))
        else:
            queue = pool.popleft()
        pool.append(queue)
        return queue

    def mark(self, queue: Queue) -> EventSnapshot:
        """A snapshot of where ``queue`` stands now."""
        self._follow_host(queue)
        return EventSnapshot(max(queue.ready_us, self.host_us), {**queue.vector_clock, queue.number: queue.epoch})

    def mark_of(self, number: int) -> EventSnapshot:
        return self.mark(self.queues[number])

    def has_passed(self, mark: EventSnapshot) -> bool:
        """The answer of ``cudaEventQuery``; True orders that work before everything the host does next."""
        if mark.time_us > self.host_us:
            return False
        self._host_sees(mark.vector_clock)
        return True

    def query(self, mark: EventSnapshot) -> bool:
        """A call of ``cudaEventQuery`` or ``cudaStreamQuery``: whether ``mark`` has passed.

        Who is told no, and gives the card nothing to do until the answer is yes, has waited.
        """
        began_us = self.host_us if self._polls_since_us is None else self._polls_since_us
        self.host_us += assumed.CALL_US
        passed = self.has_passed(mark)
        if passed and self._polls_since_us is not None:
            for log in self.logs:
                log.wait("polling", began_us, self.host_us, self.find_line())
        self._polls_since_us = None if passed else began_us
        return passed

    def queue_waits(self, queue: Queue, mark: EventSnapshot) -> None:
        """All that ``queue`` does from now on starts after ``mark``; the host goes on."""
        self.host_us += assumed.CALL_US
        queue.ready_us = max(queue.ready_us, mark.time_us)
        merge(queue.vector_clock, mark.vector_clock)

    def follow_users(self, uses) -> None:
        """The current queue starts after what others did to these: autograd orders its streams itself.

        ``uses``: (accesses, tensor). It knows no communicator's queue: what waits for a collective is told to.
        """
        current = self.current
        for accesses, _ in uses:
            for was in (*accesses.writes, *accesses.reads):
                if was.queue != current.number and current.vector_clock.get(was.queue, 0) < was.epoch:
                    self._follow(current, self.queues.get(was.queue))

    def _follow(self, current: Queue, queue: Queue | None) -> None:
        if queue is not None and not queue.communicates:
            current.ready_us = max(current.ready_us, queue.ready_us)
            merge(current.vector_clock, {**queue.vector_clock, queue.number: queue.epoch})

    # ---- the host waits

    def wait(self, mark: EventSnapshot, reason: str, asked_for: bool = False, queue: Queue | None = None) -> None:
        """The host stands still until ``mark`` is passed.

        ``asked_for``: the program called for it by name, so no debug mode objects. ``queue``:
        whose work it waits for, when it is one queue's.
        """
        if self.refuse_wait is not None:
            self.refuse_wait()
        if self.on_unsafe_wait is not None and not asked_for:
            self.on_unsafe_wait()
        start = self.host_us
        self.host_us = max(start + assumed.SYNC_US, mark.time_us)
        self._host_sees(mark.vector_clock)
        self.on_wait(reason, None if queue is None else queue.number)
        for log in self.logs:
            log.wait(reason, start, self.host_us, self.find_line())

    def wait_queue(self, queue: Queue, reason: str) -> None:
        self.wait(self.mark(queue), reason, queue=queue)

    def wait_device(self, reason: str = "cudaDeviceSynchronize") -> None:
        for prepare in self.before_wait:
            prepare()
        marks = [self.mark(queue) for queue in list(self.queues.values())]
        everything: dict[int, int] = {}
        for mark in marks:
            merge(everything, mark.vector_clock)
        last = max([mark.time_us for mark in marks] + list(self.engines.values()))
        self.wait(EventSnapshot(last, everything), reason, asked_for=True)

    # ---- work

    def kernel(self, name, duration_us, threads, flops, reads, writes, bytes_read, bytes_written):
        """Put a kernel into the current stream.

        ``reads``, ``writes``: (accesses, tensor) of its arguments. ``threads``: how many it could
        keep busy, which decides how much of the card it fills.
        """
        self.host_us += assumed.LAUNCH_US
        self._polls_since_us = None
        put = self.captured or self._start
        put(name, duration_us, threads, flops, reads, writes, bytes_read, bytes_written)

    def launch_graph(self, kernels: Iterable[tuple]) -> None:
        """Put captured kernels into the current stream: one launch for the host.

        Each is what :meth:`kernel` takes, with ``reads`` and ``writes`` as (accesses, extent).
        """
        self.host_us += assumed.LAUNCH_US
        line = self.find_line() if self.logs else None
        self.replaying = True
        try:
            for *work, reads, writes, bytes_read, bytes_written in kernels:
                self._start(*work, (), (), bytes_read, bytes_written)
                self._touch_at_replay(work[0], line, reads, writes)
        finally:
            self.replaying = False

    def _touch_at_replay(self, name: str, line, reads, writes) -> None:
        if len(self.queues) > 1:
            self._touch(self.current, name, line, reads, writes)
        else:
            self._touch_alone(self.current.epoch, name, line, reads, writes)

    def _start(self, name, duration_us, threads, flops, reads, writes, bytes_read, bytes_written):
        line = self.find_line() if self.logs else None
        if len(self.queues) == 1:
            queue = self.queues[0]
            start = self._multiprocessors.start_alone(max(self.host_us, queue.ready_us), duration_us, threads)
            queue.epoch += 1
            self._touch_alone(queue.epoch, name, line, reads, writes)
        else:
            queue = self.current
            self._follow_host(queue)
            earliest = max(self.host_us, queue.ready_us)
            start = self._multiprocessors.start(queue.number, earliest, duration_us, threads, self.host_us)
            queue.epoch += 1
            self._touch(queue, name, line, [self.uses(*r) for r in reads], [self.uses(*w) for w in writes])
        queue.ready_us = start + duration_us
        for log in self.logs:
            log.kernel(name, queue.number, start, queue.ready_us, flops, bytes_read, bytes_written, line)

    def copy(self, kind, nbytes, pinned, blocking, reads=(), writes=(), reason="") -> EventSnapshot:
        """A copy between host and device in the current stream; returns the mark at its end.

        ``kind``: ``HtoD`` or ``DtoH``. ``blocking``: PyTorch waits for the stream afterwards. What
        the driver does with pageable memory by itself: to the card the host stands still until the
        bytes are staged, and not at all for ``ASYNC_PAGEABLE_BYTES`` or fewer; to the host, until
        they are there.
        """
        queue = self.current
        self.host_us += assumed.LAUNCH_US
        self._polls_since_us = None
        self._follow_host(queue)
        start = max(self.host_us, queue.ready_us, self.engines[kind])
        queue.ready_us = self.engines[kind] = self._copy_ends(kind, nbytes, pinned, start)
        queue.epoch += 1
        line = self.find_line() if self.logs else None
        self._touch(queue, f"copy {kind}", line, reads, writes)
        for log in self.logs:
            log.copy(kind, nbytes, pinned, queue.number, start, queue.ready_us, line)
        mark = self.mark(queue)
        reason = reason or f"copy {kind}, {'pinned' if pinned else 'pageable'} memory"
        if blocking:
            self.wait(mark, reason, queue=queue)
        elif not pinned and kind == "DtoH":
            self.wait(mark, reason, asked_for=True)
        elif not pinned and nbytes > assumed.ASYNC_PAGEABLE_BYTES:
            self.host_works(staging_us(nbytes), f"{reason}, until staged")
        return mark

    def _copy_ends(self, kind: str, nbytes: int, pinned: bool, start: float) -> float:
        if pinned or kind == "DtoH":
            return start + self.copy_us(nbytes, pinned)
        # The host stages while the queue may still be busy; the last bytes are sent when both are done.
        staged = self.host_us + staging_us(nbytes)
        return max(start + self.copy_us(nbytes, True), staged + assumed.COPY_LATENCY_US)

    def queue_of_communicator(self) -> Queue:
        """A new queue outside the pools, for collectives alone."""
        return self._another(Queue(len(self.queues), assumed.HIGHEST_PRIORITY, communicates=True))

    def _another(self, queue: Queue) -> Queue:
        self.queues[queue.number] = queue
        self.allocator.several_queues()
        return queue

    def post(self, queue: Queue, op: str, reads, writes) -> EventSnapshot:
        """Put a collective into a communicator's ``queue``, behind all that the current queue holds.

        ``reads``, ``writes``: (accesses, tensor). Returns a mark: from when this card could take part, and
        what is over once the collective is. When it ends others decide: :meth:`communicated`.
        """
        self.host_us += assumed.LAUNCH_US
        here = self.mark(self.current)
        merge(queue.vector_clock, here.vector_clock)
        queue.epoch += 1
        self._touch(queue, op, self.find_line(), [self.uses(*r) for r in reads], [self.uses(*w) for w in writes])
        return EventSnapshot(here.time_us, {**queue.vector_clock, queue.number: queue.epoch})

    def communicated(self, queue: Queue, op: str, start_us: float, end_us: float, nbytes: int, line) -> None:
        """When a collective in ``queue`` took the card's time."""
        queue.ready_us = max(queue.ready_us, end_us)
        for log in self.logs:
            log.kernel(op, queue.number, start_us, end_us, 0, nbytes, nbytes, line)

    def host_waits_until(self, us: float, reason: str) -> None:
        """The host stands still until ``us`` for something that is not on the card."""
        start, self.host_us = self.host_us, max(self.host_us, us)
        for log in self.logs:
            log.wait(reason, start, self.host_us, self.find_line())

    def host_works(self, us: float, reason: str = "") -> None:
        """The host is busy inside a call for ``us``; with a ``reason``, observers see it wait.

        Other threads than the first have a time of their own, which nothing here counts.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        start = self.host_us
        self.host_us += us
        if reason:
            for log in self.logs:
                log.wait(reason, start, self.host_us, self.find_line())

    def copy_us(self, nbytes: int, pinned: bool) -> float:
        """Microseconds of a copy of ``nbytes`` bytes in an idle stream."""
        rate = self.card.link_bytes_per_s * assumed.LINK_EFFICIENCY
        sent = nbytes / rate * 1e6
        return assumed.COPY_LATENCY_US + (sent if pinned else max(sent, staging_us(nbytes)))

    def host_access(self, accesses: AccessHistory, writes: bool, op: str, extent: Extent = ALL) -> None:
        """The host itself touches pinned memory that a copy may still be using."""
        self.host_epoch += 1
        line = self.find_line() if self.logs else None
        access = Access(HOST, self.host_epoch, op, line, extent.low, extent.high, writes, extent.cells)
        clash = (accesses.write if writes else accesses.read)(access, self.host_vector_clock)
        if clash is not None:
            self._report(clash, access)

    @contextmanager
    def on(self, queue: Queue):
        """Make ``queue`` the current one inside the block."""
        before, self.current = self.current, queue
        try:
            yield
        finally:
            self.current = before

    # ---- memory

    def malloc(self, nbytes: int) -> Block:
        return self.allocator.malloc(nbytes, self.current.number if len(self.queues) > 1 else 0)

    def _malloc_cost(self) -> None:
        self.host_us += assumed.CUDA_MALLOC_US

    # ---- order

    def _host_sees(self, vector_clock: dict[int, int]) -> None:
        for before in self.before_seen:
            before()
        merge(self.host_vector_clock, vector_clock)
        self._host_version += 1
        for then in self.after_wait:
            then()

    def _follow_host(self, queue: Queue) -> None:
        # The host's vector clock, and its own accesses, come before its next launch.
        queue.vector_clock[HOST] = self.host_epoch
        if queue.host_version != self._host_version:
            merge(queue.vector_clock, self.host_vector_clock)
            queue.host_version = self._host_version

    def _touch(self, queue: Queue, op: str, line, reads, writes) -> None:
        for histories, is_write in ((reads, False), (writes, True)):
            for accesses, extent in histories:
                low, high, cells = extent
                access = access_of((queue.number, queue.epoch, op, line, low, high, is_write, cells, False))
                clash = (accesses.write if is_write else accesses.read)(access, queue.vector_clock)
                if clash is not None:
                    self._report(clash, access)

    def _touch_alone(self, epoch: int, op: str, line, reads, writes) -> None:
        # One queue is in order with itself: only what a later queue must know is kept.
        if reads:
            read = [access_of((0, epoch, op, line, 0, WHOLE, False, None, False))]
            for accesses, _ in reads:
                accesses.reads = read
        if writes:
            written = [access_of((0, epoch, op, line, 0, WHOLE, True, None, False))]
            for accesses, _ in writes:
                accesses.reads, accesses.writes = [], written

    def _report(self, first: Access, second: Access) -> None:
        for log in self.logs:
            log.race(first, second)
