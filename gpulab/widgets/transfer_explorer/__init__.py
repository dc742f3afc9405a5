"""Copies and steps on three lanes: what hides a copy, in the reader's hand."""

import anywidget
import traitlets

from gpulab.cards import constants
from gpulab.cards.cards import CARDS, card_named
from gpulab.cuda.machine.machine import Machine
from gpulab.observe.device import DeviceLog
from gpulab.widgets._source import module, style

_ASSUMED = (
    "LAUNCH_US",
    "CALL_US",
    "SYNC_US",
    "COPY_LATENCY_US",
    "PAGEABLE_BYTES_PER_S",
    "ASYNC_PAGEABLE_BYTES",
    "LINK_EFFICIENCY",
)
_EVERY_THREAD = 1 << 20


class TransferExplorer(anywidget.AnyWidget):
    """A loop that copies batches to a card and computes on them; the reader chooses how.

    Args:
        card: key of one of ``gpulab.cuda.CARDS``; its host link is what counts.
        megabytes: size of a batch, in 10^6 bytes, 1 to 64.
        step_us: device time of a step, in microseconds, 20 to 3000.
        pinned, non_blocking, side_stream, two_buffers: what the loop uses.
        batches: how many batches, 1 to 12.

    Raises:
        ValueError: for an unknown card or a size out of its range.
    """

    _esm = module("transfer_explorer")
    _css = style("transfer_explorer")
    card = traitlets.Unicode().tag(sync=True)
    megabytes = traitlets.Int().tag(sync=True)
    step_us = traitlets.Int().tag(sync=True)
    pinned = traitlets.Bool().tag(sync=True)
    non_blocking = traitlets.Bool().tag(sync=True)
    side_stream = traitlets.Bool().tag(sync=True)
    two_buffers = traitlets.Bool().tag(sync=True)
    batches = traitlets.Int().tag(sync=True)
    cards = traitlets.Dict().tag(sync=True)
    assumed = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        card: str = "H100",
        megabytes: int = 16,
        step_us: int = 350,
        *,
        pinned: bool = False,
        non_blocking: bool = False,
        side_stream: bool = False,
        two_buffers: bool = False,
        batches: int = 5,
    ):
        if not (1 <= megabytes <= 64 and 20 <= step_us <= 3000 and 1 <= batches <= 12):
            raise ValueError("a batch has 1 to 64 MB, a step 20 to 3000 microseconds, and there are 1 to 12 batches")
        super().__init__(
            card=card_named(card).key,
            megabytes=megabytes,
            step_us=step_us,
            pinned=pinned,
            batches=batches,
            non_blocking=non_blocking,
            side_stream=side_stream,
            two_buffers=two_buffers,
            cards={key: known.link_bytes_per_s for key, known in CARDS.items()},
            assumed={name.lower(): getattr(constants, name) for name in _ASSUMED},
        )

    def observed(self) -> DeviceLog:
        """What the machine of :mod:`gpulab.cuda` does when it runs this loop; times in microseconds."""
        copied: list = []
        log = DeviceLog(on_copy=copied.append)
        log.copied = copied
        machine = Machine(CARDS[self.card])
        machine.logs.append(log)
        compute = machine.current
        copies = machine.queue_from_pool() if self.side_stream else compute
        arrived, used, buffers = [], [], 1 + self.two_buffers
        for i in range(self.batches):
            if i >= buffers:
                machine.wait(arrived[i - buffers], "cudaEventSynchronize", asked_for=True)
                if self.side_stream:
                    machine.queue_waits(copies, used[i - buffers])
            with machine.on(copies):
                machine.copy("HtoD", int(self.megabytes * 1e6), self.pinned, not self.non_blocking)
            arrived.append(_recorded(machine, copies))
            if self.side_stream:
                machine.queue_waits(compute, arrived[i])
            machine.kernel("step", float(self.step_us), _EVERY_THREAD, 0, (), (), 0, 0)
            used.append(_recorded(machine, compute))
        machine.wait_device()
        return log


def _recorded(machine: Machine, queue):
    machine.host_us += constants.CALL_US
    return machine.mark(queue)
