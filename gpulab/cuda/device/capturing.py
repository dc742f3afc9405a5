"""The capture that is under way: which streams are in it, and what CUDA refuses meanwhile."""

import threading
from functools import partial

from gpulab.cuda.device import state
from gpulab.cuda.device.accelerator_errors import accelerator_error
from gpulab.cuda.device.capture import Capture
from gpulab.cuda.device.forks import Forks
from gpulab.cuda.errors import NotModelled
from gpulab.cuda.machine.machine import Queue

Point = tuple[Forks, dict[int, int]]
"""Where an event was recorded in a capture."""


def begin(capture: Capture) -> None:
    """The current stream captures. Raises NotModelled while another capture is under way."""
    device = state.device_on()
    if device.under_way is not None:
        raise NotModelled("a second capture of a CUDA graph while one is under way")
    device.machine.allocator.keep_pool(capture.pool)
    device.under_way, device.machine.on_switch = capture, partial(_switched, threading.get_ident())
    device.machine.refuse_wait = refuse
    _follow()


def end() -> None:
    """Raises AcceleratorError, as CUDA does, where something failed in the capture or a stream was not joined.

    Captured or not, the device runs again what it is given.
    """
    device = state.device_on()
    capture, device.under_way = device.under_way, None
    device.machine.on_switch = device.machine.refuse_wait = None
    _follow()
    if not device.ghost:
        capture.undo()
    capture.end(device.addresses)
    capture.check()
    if capture.forks.unjoined():
        raise accelerator_error("cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work")


def _switched(by: int) -> None:
    """A thread has made another stream its current one. ``by``: the thread that began the capture."""
    if threading.get_ident() == by:
        _follow()


def _follow() -> None:
    """What the current stream is given from now on is captured, or runs, as the stream is in the capture or not."""
    device = state.device_on()
    queue = device.machine.current
    capture = device.capture = of(queue)
    device.memory.on_new = capture and capture.made
    device.machine.captured = capture and partial(capture.launched, queue.number)
    device.machine.allocator.take_from(capture and capture.pool)


def of(queue: Queue) -> Capture | None:
    """The capture that this stream is in."""
    capture = state.device_on().under_way
    return capture if capture is not None and queue.number in capture.forks else None


def recorded(queue: Queue) -> Point | None:
    """What an event that is recorded in ``queue`` keeps of the capture there, if there is one."""
    capture = of(queue)
    return None if capture is None else (capture.forks, capture.forks.point(queue.number))


def waits(queue: Queue, event: Point | None) -> None:
    """``queue`` is made to wait for an event: so a stream joins a capture.

    Raises AcceleratorError, as CUDA does, for an event from outside in a stream that captures. Raises NotModelled for
    the default stream, which no capture takes in, and for an event of a capture that is over.
    """
    capture = state.device_on().under_way
    if capture is not None and event is not None and event[0] is capture.forks:
        _join(capture, queue, event[1])
    elif of(queue) is not None:
        capture.failed = True
        raise accelerator_error(
            "cudaErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream"
        )
    elif event is not None:
        raise NotModelled("a stream that waits for an event of a CUDA graph's capture after its end")


def _join(capture: Capture, queue: Queue, point: dict[int, int]) -> None:
    if queue.number == 0:
        raise NotModelled("the default stream inside the capture of a CUDA graph")
    capture.forks.wait(queue.number, point)
    _follow()


def refuse() -> None:
    """Raise what CUDA raises where the host waits during a capture."""
    state.device_on().under_way.failed = True
    raise accelerator_error("cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing")


def refuse_captured(event: Point | None) -> None:
    """Raise what CUDA raises where the host asks for an event that was recorded in a capture: it happens at a replay."""
    if event is None:
        return
    capture = state.device_on().under_way
    if capture is not None and event[0] is capture.forks:
        capture.failed = True
    raise accelerator_error(
        "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"
    )
