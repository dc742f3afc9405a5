"""The device's side of an Observation: a log that a CUDA runtime writes into.

``gpulab.cuda`` registers the device that is on; this module knows none.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch

from gpulab.observe.launches import Launch
from gpulab.observe.records import Collective, Copy, Held, Kernel, Race, Wait

HOST = -1

Tell = Callable[[str, object], None]
"""Is told each record as it is made: its kind (``op``, ``copy``, ``kernel``, ``wait``, ``race``,
``launch``, ``collective``, ``saved``, ``batch``, ``new``) and the record; of ``new``, storage that no operation returned, its bytes.
A collective is told twice: when it is posted, and when it is known when it ended. ``saved`` is told when it is known
by which operation, as ``kept``: whether it still is at the end nobody knows yet."""


def tell_nobody(kind: str, record: object) -> None:
    pass


class Device(Protocol):
    """What a runtime offers to be observed."""

    description: str

    def start(self, log: "DeviceLog") -> None:
        """Write into ``log`` from now on."""

    def stop(self, log: "DeviceLog") -> None:
        """Write no more into ``log``."""

    def host_operation(self, name: str, tensors: list[torch.Tensor]) -> None:
        """The host is about to run an operation on these tensors."""


class DeviceLog:
    """What a device did while a block ran."""

    def __init__(
        self,
        device: str | None = None,
        on_copy: Callable[[Copy], None] = lambda copy: None,
        on_new: Callable[[torch.Tensor], None] = lambda tensor: None,
        on_written: Callable[[torch.Tensor, np.ndarray], None] = lambda tensor, mask: None,
        tell: Tell = tell_nobody,
    ) -> None:
        self.device = device
        self.blind = False
        self.kernels: list[Kernel] = []
        self.waits: list[Wait] = []
        self.races: list[Race] = []
        self.launches: list[Launch] = []
        self.held: list[Held] = []
        self._collectives: dict[int, Collective] = {}
        self.copies_seen = 0
        self.on_new, self.on_written = on_new, on_written
        self._on_copy, self._tell = on_copy, tell

    def kernel(self, *fields) -> None:
        self._keep("kernel", self.kernels, Kernel(*fields))

    def wait(self, *fields) -> None:
        self._keep("wait", self.waits, Wait(*fields))

    def launch(self, launch: Launch) -> None:
        self._keep("launch", self.launches, launch)

    @property
    def collectives(self) -> list[Collective]:
        """In the order in which they were posted."""
        return list(self._collectives.values())

    def posted(self, collective: Collective) -> None:
        self._tell("collective", collective)
        self._collectives[collective.number] = collective

    def arrived(self, collective: Collective) -> None:
        """What is now known of one that was posted; nothing when that was before this log began."""
        if collective.number in self._collectives:
            self.posted(collective)

    def _keep(self, kind: str, records: list, record: object) -> None:
        self._tell(kind, record)
        records.append(record)

    def copy(self, kind, nbytes, pinned, stream, start_us, end_us, line) -> None:
        self.copies_seen += 1
        self._on_copy(Copy(kind, kind, nbytes, line, pinned, stream, start_us, end_us))

    def race(self, first, second) -> None:
        kind = f"{'write' if second.writes else 'read'} after {'write' if first.writes else 'read'}"
        found = Race(kind, first.op, first.queue, first.line, second.op, second.queue, second.line, first.former)
        self._tell("race", found)
        if found not in self.races:
            self.races.append(found)


_device: Device | None = None


def set_device(device: Device | None) -> None:
    """Called by the CUDA runtime when it is switched on and off."""
    global _device
    _device = device


def device() -> Device | None:
    """The device that is observed now, if any."""
    return _device


_logs: list[DeviceLog] = []


def record_launch(launch: Launch, written: Iterable[tuple[torch.Tensor, np.ndarray]] = ()) -> None:
    """Called by ``gpulab.kernels`` after a kernel ran: every open block sees it.

    written: tensors it wrote, each with a bool for every byte from its first element on.
    """
    written = list(written)
    for log in _logs:
        log.launch(launch)
        for tensor, mask in written:
            log.on_written(tensor, mask)


def record_held(held: Held) -> None:
    """Called by ``gpulab.memory`` when a ``track`` block ends: every open block keeps what it found."""
    for log in _logs:
        log.held.append(held)


def record_posted(collective: Collective) -> None:
    """Called by ``gpulab.collectives`` when a rank posts a collective: every open block sees it."""
    for log in _logs:
        log.posted(collective)


def record_arrived(collective: Collective) -> None:
    """Called when somebody has waited for it: the same record with its times."""
    for log in _logs:
        log.arrived(collective)


def forget() -> None:
    """In a DataLoader's worker: the blocks that are open are those of the process that started it."""
    _logs.clear()


def observing() -> bool:
    """Whether some block is open: a kernel traces itself only then."""
    return bool(_logs)


@contextmanager
def logging(log: DeviceLog) -> Iterator[DeviceLog]:
    """The device, if one is on, and kernels written in Python write into ``log`` inside the block."""
    _logs.append(log)
    try:
        with _device_logging(log):
            yield log
    finally:
        _logs.remove(log)


def _gpu_in_use() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized()


def _real_device() -> Device | None:
    global _real
    if _real is None and _gpu_in_use():
        _real = _instrument()
    return _real


def measures_gpus_with(instrument: Callable[[], Device]) -> None:
    """To be called once by who is above both this module and the instrument."""
    global _instrument
    _instrument = instrument


_real: Device | None = None
_instrument: Callable[[], Device] | None = None


@contextmanager
def _device_logging(log: DeviceLog) -> Iterator[None]:
    observed = _device or _real_device()
    if observed is None:
        yield
        # A GPU that was first used inside the block had no instrument on it.
        log.blind = _gpu_in_use()
        return
    log.device = observed.description
    observed.start(log)
    try:
        yield
    finally:
        observed.stop(log)
