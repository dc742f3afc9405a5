"""A collective under way.

Values and time are apart. Its bytes arrive in the outputs when somebody waits, and with them the time at which it
ended in the model. On the card a wait holds up the current stream, as NCCL's does; for host tensors it holds up the
host.
"""

from dataclasses import replace

import torch
import torch.distributed as dist

from gpulab.collectives.rank import session
from gpulab.collectives.rank.memory import fill
from gpulab.compat.autograd import current_graph_task, queue_callback
from gpulab.cuda.device import state
from gpulab.cuda.machine.machine import EventSnapshot, Queue
from gpulab.observe.device import record_arrived
from gpulab.observe.records import Collective


class Work(dist.Work):
    """What ``async_op=True`` returns."""

    def __init__(
        self, number: int, outputs: list, record: Collective, queue: Queue | None, ready: EventSnapshot, group
    ) -> None:
        super().__init__()
        self._number, self._outputs, self.record = number, outputs, record
        self._queue, self._ready, self._group = queue, ready, group
        self._arrived, self._future = False, None

    def arrive(self) -> None:
        """The bytes are in the outputs. The modelled host does not wait for that."""
        if self._arrived:
            return
        meta, payload = session.current().answer(self._number)
        self._arrived = True
        fill(self._outputs, payload)
        self.record = replace(self.record, start_us=meta["start_us"], end_us=meta["end_us"])
        if self._queue is not None:
            self._took_the_cards_time()
        self._group.arrived(self)
        record_arrived(self.record)

    def _took_the_cards_time(self) -> None:
        # From when this rank could take part: one that is early is seen to wait for the others.
        begins = max(self.record.ready_us, self._queue.ready_us)
        name = f"nccl:{self.record.operation}"
        machine = state.device_on().machine
        begins = min(begins, self.record.end_us)
        machine.communicated(self._queue, name, begins, self.record.end_us, self.record.bytes, self.record.line)

    def wait(self, timeout=None) -> bool:
        self.arrive()
        end = self.record.end_us
        if self._queue is not None:
            machine, mark = state.device_on().machine, EventSnapshot(end, self._ready.vector_clock)
            machine.queue_waits(machine.current, mark)
            if self.record.operation == "barrier":
                machine.wait(mark, "barrier", asked_for=True)
        elif state.is_on():
            state.device_on().machine.host_waits_until(end, self.record.operation)
        else:
            session.current().host_us = max(session.current().host_us, end)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether its end is known here: nothing else is the same in every run."""
        return self._arrived

    def is_success(self) -> bool:
        return self._arrived

    def exception(self) -> None:
        return None

    def result(self) -> list:
        return self._outputs

    def source_rank(self) -> int:
        return self.record.ranks[0]

    def get_future(self) -> torch.futures.Future:
        """For PyTorch's C++ (the Reducer), which waits for futures where Python is not asked.

        So the bytes arrive now, and the stream waits at the end of the backward pass.
        """
        if self._future is None:
            self.arrive()
            self._future = _Done(self)
            self._future.set_result(self._outputs)
            if current_graph_task() != -1:
                queue_callback(self.wait)
        return self._future


class Several(dist.Work):
    """Many that were posted as one."""

    def __init__(self, works: list[Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout=None) -> bool:
        for work in self._works:
            work.wait()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def result(self) -> list:
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> torch.futures.Future:
        for work in self._works:
            work.arrive()
        future = _Done(self)
        future.set_result(self.result())
        return future


class _Done(torch.futures.Future):
    """Its values are there; to wait for it is the stream's wait."""

    def __init__(self, work: dist.Work) -> None:
        super().__init__()
        self._work = work

    def wait(self):
        self._work.wait()
        return super().wait()
