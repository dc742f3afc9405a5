"""``observe()`` on a real GPU: PyTorch's profiler, its GPU trace hooks and its stream sanitizer.

``make evidence`` runs its tests on a GPU. One block at a time: CUPTI serves one profiler.
PyTorch's own ``enable_cuda_sanitizer`` has to be imported before this.
"""

import ctypes
import functools
import importlib
import json
import os
import sys
import tempfile
from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from gpulab.compat.cuda import ACTIVATE_GPU_TRACE, SANITIZER, TRACE_FLAG, gpu_trace
from gpulab.compat.dispatch import DispatchMode, no_dispatch
from gpulab.observe.chrome_trace import ASIDE, BEGIN, END, SENTINEL, Operation, range_name, read
from gpulab.observe.device import DeviceLog
from gpulab.observe.lines import learners_line
from gpulab.observe.records import Race


def _trace(on: bool) -> None:
    """Switch PyTorch's trace hooks on or off; PyTorch itself only switches them on, for good.

    A hook that fires while an error travels (a tensor is freed on the way) replaces the error by
    ``SystemError: error return without exception set``. Where PyTorch names the flag otherwise, the hooks stay on.
    """
    if (flag := _flag()) is not None:
        flag.value = on


@functools.cache
def _flag() -> ctypes.c_bool | None:
    """Looked up once: every operation of an observed program switches it."""
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        return ctypes.c_bool.in_dll(ctypes.CDLL(library), TRACE_FLAG)
    except (OSError, ValueError):
        return None


def _sanitizer():
    """PyTorch's sanitizer, without what its import switches on for good: a handler, the trace hooks."""
    known = SANITIZER in sys.modules
    registries = [r for name, r in vars(gpu_trace).items() if name.endswith("Callbacks")]
    before = [list(registry.callback_list) for registry in registries]
    module = importlib.import_module(SANITIZER)
    for registry, callbacks in zip(registries, before):
        if not known:
            registry.callback_list[:] = callbacks
    if not known:
        _trace(False)
    return module


csan = _sanitizer()
_MAKES_ITS_OWN = ("new_", "_like")


class RealDevice:
    """The GPU that is there, for one observation at a time."""

    def __init__(self) -> None:
        self.description = f"{torch.cuda.get_device_name()}, measured"
        self._watch: Watch | None = None

    def start(self, log: DeviceLog) -> None:
        """Begin to record. Raises RuntimeError inside another block."""
        if self._watch is not None:
            raise RuntimeError("observe() blocks do not nest on a real GPU: its profiler records one at a time")
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        self._profile.start()
        with no_dispatch(), record_function(SENTINEL):
            torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        self._watch = Watch()
        self._watch.begin()
        with _marked(BEGIN):
            pass

    def stop(self, log: DeviceLog) -> None:
        """End the recording and write it into ``log``. Raises InstrumentError when it saw nothing."""
        with _marked(END):
            pass
        watch, self._watch = self._watch, None
        watch.end()
        self._profile.stop()
        read(_exported(self._profile), watch.operations, log, watch.wait_lines)
        log.races.extend(watch.races)

    def host_operation(self, name: str, tensors: list[torch.Tensor]) -> None:
        """Nothing to do: the watch sees operations itself."""


@contextmanager
def _marked(name: str):
    """A range of the profile that no dispatch mode takes for an operation of the program."""
    mark = record_function(name)
    with no_dispatch():
        mark.__enter__()
    try:
        yield
    finally:
        with no_dispatch():
            mark.__exit__(None, None, None)


@contextmanager
def aside():
    """What runs inside is an instrument's own work: no block that is open records it as the program's."""
    with _marked(ASIDE), no_dispatch():
        yield


class Watch(DispatchMode):
    """Names each operation in the trace, and puts its accesses before the stream sanitizer."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.races: list[Race] = []
        self.wait_lines: dict[str, list] = {}
        self._handler = csan.EventHandler()
        self._waits_heard = 0
        self._by_sequence: dict[int, Operation] = {}
        self._callbacks = _callbacks(self._handler, self._waits)

    def begin(self) -> None:
        ACTIVATE_GPU_TRACE.value()
        _trace(True)
        for registry, callback in self._callbacks:
            registry.add_callback(callback)
        self.__enter__()

    def end(self) -> None:
        self.__exit__(None, None, None)
        _trace(False)
        for registry, callback in self._callbacks:
            registry.callback_list.remove(callback)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        stream, name = torch.cuda.current_stream(), func._schema.name.replace("::", ".")
        self.operations.append(Operation(name, stream.stream_id, learners_line()))
        heard = self._waits_heard
        _trace(True)
        with _marked(range_name(len(self.operations) - 1)):
            try:
                out = func(*args, **(kwargs or {}))
            except BaseException:
                _trace(False)  # until the next operation: what is freed while an error travels
                raise
        if name != "aten.record_stream":
            self._check(func._schema, args, kwargs or {}, out, stream)
        if self._waits_heard > heard:
            # The host waited for this operation before the sanitizer was told of it.
            self._handler._handle_stream_synchronization(stream.cuda_stream)
        return out

    def _check(self, schema, args, kwargs, out, stream) -> None:
        is_factory = any(part in schema.name for part in _MAKES_ITS_OWN)
        seen = csan.ArgumentHandler()
        seen.parse_inputs(schema, args, kwargs, is_factory=is_factory)
        seen.parse_outputs(schema, out, is_factory=is_factory)
        reads, writes = seen.dataptrs_read - seen.dataptrs_written, seen.dataptrs_written
        found = self._handler._handle_kernel_launch(
            stream.cuda_stream, reads, writes, seen.outputs, schema, seen.tensor_aliases
        )
        self._by_sequence[self._handler.seq_num] = self.operations[-1]
        for error in found:
            race = _race(error, self._by_sequence)
            if race not in self.races:
                self.races.append(race)

    def _waits(self, call: str) -> None:
        self._waits_heard += 1
        self.wait_lines.setdefault(call, []).append(learners_line())


def _race(error, by_sequence: dict[int, Operation]) -> Race:
    first, second = error.previous_access, error.current_access
    one, two = by_sequence[first.seq_num], by_sequence[second.seq_num]
    verbs = {"READ": "read", "WRITE": "write"}
    kind = f"{verbs[second.type.name]} after {verbs[first.type.name]}"
    return Race(kind, one.name, one.stream, one.line, two.name, two.stream, two.line)


def _callbacks(handler, waits) -> list[tuple]:
    """(registry, callback): what PyTorch tells of events, streams and memory goes to the sanitizer."""

    def both(handle, call: str):
        def callback(*args) -> None:
            waits(call)
            handle(*args)

        return callback

    return [
        (gpu_trace.EventCreationCallbacks, handler._handle_event_creation),
        (gpu_trace.EventDeletionCallbacks, handler._handle_event_deletion),
        (gpu_trace.EventRecordCallbacks, handler._handle_event_record),
        (gpu_trace.EventWaitCallbacks, handler._handle_event_wait),
        (gpu_trace.MemoryAllocationCallbacks, handler._handle_memory_allocation),
        (gpu_trace.MemoryDeallocationCallbacks, handler._handle_memory_deallocation),
        (gpu_trace.StreamCreationCallbacks, handler._handle_stream_creation),
        (
            gpu_trace.DeviceSynchronizationCallbacks,
            both(handler._handle_device_synchronization, "cudaDeviceSynchronize"),
        ),
        (
            gpu_trace.StreamSynchronizationCallbacks,
            both(handler._handle_stream_synchronization, "cudaStreamSynchronize"),
        ),
        (
            gpu_trace.EventSynchronizationCallbacks,
            both(handler._handle_event_synchronization, "cudaEventSynchronize"),
        ),
    ]


def _exported(recording) -> dict:
    """The profile as its Chrome trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        recording.export_chrome_trace(path)
        with open(path) as file:
            return json.load(file)
