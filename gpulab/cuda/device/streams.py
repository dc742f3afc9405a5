"""Streams and events: the parts that PyTorch writes in C++, under its own Python classes."""

import types

import torch

from gpulab.cards.constants import CALL_US, HIGHEST_PRIORITY, LOWEST_PRIORITY
from gpulab.cuda.device import capturing, state
from gpulab.cuda.device.gpu_trace import handle, tell
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.errors import NotModelled

_CUDA_DEVICE_TYPE = 1


class StreamBase:
    """What ``torch._C._CudaStreamBase`` does on a card."""

    device_type = _CUDA_DEVICE_TYPE
    device_index = property(lambda self: state.CUDA.index)
    device = property(lambda self: state.CUDA)

    def __new__(cls, priority=0, stream_id=None, device_index=None, device_type=1, stream_ptr=None):
        if stream_ptr is not None:
            raise NotModelled("ExternalStream")
        self = object.__new__(cls)
        machine = state.device_on().machine
        if stream_id is not None and (device_index not in (None, state.CUDA.index) or stream_id not in machine.queues):
            raise RuntimeError("this stream is of another card, or of one that is switched off")
        if stream_id is None:
            stream_id = machine.queue_from_pool(min(max(priority, HIGHEST_PRIORITY), LOWEST_PRIORITY)).number
            tell("StreamCreation", handle(stream_id))
        self._queue = machine.queues[stream_id]
        return self

    def __init__(self, *args, **kwargs) -> None:
        pass

    stream_id = property(lambda self: self._queue.number)
    # A handle to print; 0 is the default stream, as on a card.
    cuda_stream = property(lambda self: handle(self._queue.number))
    priority = property(lambda self: self._queue.priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (LOWEST_PRIORITY, HIGHEST_PRIORITY)

    def query(self) -> bool:
        machine = state.device_on().machine
        if self.is_capturing():
            capturing.refuse()
        return machine.query(machine.mark(self._queue))

    def synchronize(self) -> None:
        machine = state.device_on().machine
        machine.wait_queue(self._queue, "cudaStreamSynchronize")

    def __enter__(self):
        self._entered = torch.cuda.current_stream()
        torch.cuda.set_stream(self)
        return self

    def __exit__(self, *exc) -> None:
        torch.cuda.set_stream(self._entered)

    def is_capturing(self) -> bool:
        return capturing.of(self._queue) is not None

    def __eq__(self, other) -> bool:
        return self._queue is other._queue


class EventBase:
    """What ``torch._C._CudaEventBase`` does on a card."""

    device = property(lambda self: state.CUDA)
    cuda_event = property(lambda self: id(self))

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess or external:
            raise NotModelled("an event shared between processes or captured in a graph")
        self = object.__new__(cls)
        self._timed, self._mark, self._captured = enable_timing, None, None
        return self

    def __init__(self, *args, **kwargs) -> None:
        pass

    def record(self, stream) -> None:
        machine = state.device_on().machine
        machine.host_us += CALL_US
        if self._mark is None:
            tell("EventCreation", id(self))
        self._mark, self._captured = machine.mark(stream._queue), capturing.recorded(stream._queue)
        tell("EventRecord", id(self), stream.cuda_stream)

    def wait(self, stream) -> None:
        if self._mark is not None:
            capturing.waits(stream._queue, self._captured)
            state.device_on().machine.queue_waits(stream._queue, self._mark)
            tell("EventWait", id(self), stream.cuda_stream)

    def query(self) -> bool:
        machine = state.device_on().machine
        if self._mark is None:
            machine.host_us += CALL_US
            return True
        capturing.refuse_captured(self._captured)
        return machine.query(self._mark)

    def synchronize(self) -> None:
        if self._mark is not None:
            capturing.refuse_captured(self._captured)
            state.device_on().machine.wait(self._mark, "cudaEventSynchronize", asked_for=True)
            tell("EventSynchronization", id(self))

    def elapsed_time(self, end_event) -> float:
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._mark is None or end_event._mark is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        capturing.refuse_captured(self._captured or end_event._captured)
        machine = state.device_on().machine
        machine.host_us += CALL_US
        if not (machine.has_passed(self._mark) and machine.query(end_event._mark)):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (end_event._mark.time_us - self._mark.time_us) / 1e3

    def __del__(self) -> None:
        if self._mark is not None:
            tell("EventDeletion", id(self))

    def ipc_handle(self):
        raise NotModelled("Event.ipc_handle")

    @classmethod
    def from_ipc_handle(cls, device, handle):
        raise NotModelled("Event.from_ipc_handle")


def install(patches: Patches) -> None:
    """Put PyTorch's Stream and Event onto these bases."""
    streams = torch.cuda.streams
    for name, base in (("Stream", StreamBase), ("Event", EventBase)):
        on_base = rebased(vars(streams)[name], base)
        patches.set(streams, name, on_base)
        patches.set(torch.cuda, name, on_base)


def rebased(original: type, base: type) -> type:
    """``original`` with its methods, derived from ``base`` instead."""
    cell = types.CellType()
    body = {}
    for name, value in vars(original).items():
        if name not in ("__dict__", "__weakref__"):
            body[name] = _moved(value, cell)
    body.setdefault("__slots__", ())
    body.pop("__slots__")
    twin = type(original.__name__, (base,), body)
    cell.cell_contents = twin
    return twin


def _moved(value, cell: types.CellType):
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(_moved(value.__func__, cell))
    if isinstance(value, property):
        return property(_moved(value.fget, cell))
    if not isinstance(value, types.FunctionType) or "__class__" not in value.__code__.co_freevars:
        return value
    closure = tuple(
        cell if name == "__class__" else kept for name, kept in zip(value.__code__.co_freevars, value.__closure__)
    )
    twin = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, closure)
    twin.__kwdefaults__ = value.__kwdefaults__
    return twin
