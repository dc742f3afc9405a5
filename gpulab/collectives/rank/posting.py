"""How a rank's part in a collective leaves it: the bytes onto the wire, the work into the communicator's stream."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import torch

from gpulab.collectives.rank import session
from gpulab.collectives.rank.memory import on_card, payload
from gpulab.collectives.rank.work import Work
from gpulab.cuda.device import state
from gpulab.cuda.errors import NotModelled
from gpulab.cuda.machine.machine import EventSnapshot, Queue
from gpulab.observe.device import record_posted
from gpulab.observe.lines import learners_line
from gpulab.observe.records import Collective

Tensor = torch.Tensor
_numbers = itertools.count()


_host_tensors = False


@contextmanager
def host_tensors_allowed() -> Iterator[None]:
    """Inside the block an nccl group takes host tensors, which NCCL would refuse."""
    global _host_tensors
    before, _host_tensors = _host_tensors, True
    try:
        yield
    finally:
        _host_tensors = before


class Posting:
    """One process group's way out. ``sequence`` counts its collectives; messages are matched by their ends."""

    def __init__(self, group, rank: int, size: int) -> None:
        self.sequence = 0
        self.under_way: dict[Work, None] = {}
        self._group, self._rank, self._size = group, rank, size
        self._queue: Queue | None = None
        self._together: list[Work] | None = None

    def post(
        self,
        operation: str,
        inputs: list[Tensor],
        outputs: list[Tensor],
        *,
        whole: int | None = None,
        reduces: str = "",
        root: int = -1,
        peer: int = -1,
        tag: int = 0,
        gives=(),
        takes=(),
    ) -> Work:
        """Hand in ``inputs``; ``outputs`` are written when somebody waits.

        whole: bytes by which all ranks must agree, those of ``inputs`` if not given; -1 for each its own. gives, takes:
        bytes by rank of the group. Raises RuntimeError for tensors that this backend does not take.
        """
        tensors = [*inputs, *outputs]
        queue = self._queue_for(operation, tensors)
        if queue is not None:
            state.device_on().use(tensors)
        ghost = queue is not None and state.device_on().ghost
        given = [] if ghost else payload(inputs)
        size = sum(tensor.nbytes for tensor in inputs)
        whole = size if whole is None else whole
        ready = self._enter(queue, operation, inputs, outputs)
        line = learners_line()
        record = Collective(
            number=next(_numbers),
            operation=operation,
            bytes=whole if whole >= 0 else size,
            dtype=_dtype(tensors),
            reduces=reduces,
            group=self._name,
            ranks=self._ranks(operation, peer),
            stream=queue and queue.number,
            ready_us=ready.time_us,
            start_us=None,
            end_us=None,
            line=line,
        )
        number = session.current().ask(
            {
                "do": "post", "operation": operation, "group": self._name, "ranks": self._group.global_ranks,
                "sequence": self._next(operation), "dtype": record.dtype, "whole": whole, "shape": _shape(inputs or outputs),
                "reduces": reduces, "root": root, "peer": peer, "tag": tag if self._group.backend == "gloo" else 0,
                "gives": list(gives), "takes": list(takes), "size": size, "ghost": ghost, "ready_us": ready.time_us,
                "line": None if line is None else asdict(line), "stamp": session.current().stamp(),
            },
            given,
        )  # fmt: skip
        return self._under_way(Work(number, outputs, record, queue, ready, self))

    def gather_up(self) -> None:
        """What is posted from now on belongs together."""
        self._together = []

    def gathered(self) -> list[Work]:
        together, self._together = self._together or [], None
        return together

    def arrived(self, work: Work) -> None:
        self.under_way.pop(work, None)

    def _under_way(self, work: Work) -> Work:
        self.under_way[work] = None
        if self._together is not None:
            self._together.append(work)
        record_posted(work.record)
        return work

    @property
    def _name(self) -> str:
        return str(self._group.options.group_name)

    def _ranks(self, operation: str, peer: int) -> tuple[int, ...]:
        own = session.current().rank
        return {"send": (own, peer), "recv": (peer, own)}.get(operation, self._group.global_ranks)

    def _next(self, operation: str) -> int:
        if operation in ("send", "recv"):
            return -1
        self.sequence += 1
        return self.sequence - 1

    def _queue_for(self, operation: str, tensors: list[Tensor]) -> Queue | None:
        """The communicator's stream; None for host tensors."""
        nccl = self._group.backend == "nccl"
        if not (on_card(tensors) or not tensors and nccl and state.is_on()):
            if nccl and tensors and state.is_on() and not _host_tensors:
                raise RuntimeError(
                    f"No backend type associated with device type cpu ({operation} of a host tensor over nccl)"
                )
            return None
        device = state.device_on()
        if device.capture is not None:
            raise NotModelled(f"{operation} inside a CUDA graph")
        if self._queue is None:
            self._queue = device.machine.queue_of_communicator()
            # cudaDeviceSynchronize waits for communicators too.
            device.machine.before_wait.append(self._all_arrive)
        return self._queue

    def _all_arrive(self) -> None:
        for work in list(self.under_way):
            work.arrive()

    def _enter(self, queue: Queue | None, operation: str, inputs, outputs) -> EventSnapshot:
        if queue is None:
            host_us = state.device_on().machine.host_us if state.is_on() else session.current().host_us
            return EventSnapshot(host_us, {})
        device = state.device_on()
        reads = [(device.memory.of(t).accesses, t) for t in inputs]
        writes = [(device.memory.of(t).accesses, t) for t in outputs]
        return device.machine.post(queue, f"nccl:{operation}", reads, writes)


def _dtype(tensors: list[Tensor]) -> str:
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else ""


def _shape(tensors: list[Tensor]) -> str:
    """``4 x 5``, or for several tensors the elements of all."""
    if len(tensors) == 1:
        return " x ".join(map(str, tensors[0].shape)) or "1"
    return str(sum(tensor.numel() for tensor in tensors))
