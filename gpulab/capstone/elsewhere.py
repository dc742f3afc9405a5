"""What the job needs and this machine has not: a disk that is slow to read, and the other ranks.

On the virtual card they take modelled time. On a real GPU the host sleeps, and a kernel spins on a stream of its own, for as long.
"""

import time
from collections.abc import Sequence

import torch
from torch.profiler import record_function

from gpulab.collectives.network import Network
from gpulab.compat.cuda import sleep
from gpulab.cuda.device import state
from gpulab.cuda.machine.machine import EventSnapshot, Queue
from gpulab.feeding import Loader, Stages, simulate

NODES, RANKS = 2, 16
NETWORK = Network.of("DGX H100", NODES)
"""The job is one rank of 16, on two machines."""
BATCH = Stages(fetch=0.5, decode=1.0)
"""Milliseconds that one batch takes to read and to decode."""


def wait_for_batch(step: int, loader: Loader) -> float:
    """The host stands still until the loader has batch ``step``: microseconds, of a loop that takes a millisecond a step."""
    turn = simulate([Stages(BATCH.fetch, BATCH.decode, step=1.0)] * (step + 1), loader)[step]
    waited_us = 1000 * (turn.given - turn.asked)
    with record_function("input"):
        if state.is_on():
            state.device_on().machine.host_works(waited_us)
        else:
            time.sleep(waited_us / 1e6)
    return waited_us


class Peers:
    """The other ranks. They do as this one does, so what comes back has its own values."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def collective(self, kind: str, tensors: Sequence[torch.Tensor], times: float = 1.0) -> None:
        """One collective of ``gpulab.collectives.network.KINDS`` over all tensors together, ``times`` their bytes.

        The current stream goes on when it is over; the host does not wait.
        """
        nbytes = int(times * sum(tensor.nbytes for tensor in tensors))
        us = NETWORK.duration_us(kind, nbytes, RANKS)
        if not state.is_on():
            sleep(int(us * torch.cuda.get_device_properties(0).clock_rate / 1000))
            return
        device = state.device_on()
        machine = device.machine
        self._queue = self._queue or machine.queue_of_communicator()
        uses = [(device.memory.of(tensor).accesses, tensor) for tensor in tensors]
        ready = machine.post(self._queue, f"nccl:{kind}", uses, uses)
        start = max(ready.time_us, self._queue.ready_us)
        machine.communicated(self._queue, f"nccl:{kind}", start, start + us, nbytes, None)
        machine.queue_waits(machine.current, EventSnapshot(start + us, ready.vector_clock))
