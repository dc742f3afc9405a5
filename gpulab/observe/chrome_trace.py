"""Reads a profiler's Chrome trace into a DeviceLog: kernels, copies and the host's waits.

The trace is what ``torch.profiler`` exports, on a GPU from CUPTI. Ranges named by
:func:`range_name` tell which operation of the program each launch belongs to.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gpulab.observe.device import DeviceLog
from gpulab.observe.errors import InstrumentError
from gpulab.observe.records import SourceLine

BEGIN, END, SENTINEL = "gpulab:begin", "gpulab:end", "gpulab:sentinel"
ASIDE = "gpulab:aside"
"""The range around what an instrument does on the card for itself."""
_WAITS = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"}


@dataclass(frozen=True)
class Operation:
    """One operation of the program: its name (``aten.mm``), its stream's number, its line."""

    name: str
    stream: int
    line: SourceLine | None


def range_name(number: int) -> str:
    """What the range around operation ``number`` is called in the trace."""
    return f"gpulab:{number}"


def read(
    document: dict,
    operations: Sequence[Operation],
    log: DeviceLog,
    wait_lines: dict[str, list[SourceLine | None]] | None = None,
) -> None:
    """Write into ``log`` what the trace says happened between the marks BEGIN and END, ASIDE left out.

    ``operations``: those that ran, in order; their index is their range's number.
    ``wait_lines``: for each synchronising call's name, the lines that made it, in order.
    Times are microseconds since BEGIN. Raises InstrumentError when a mark or the kernel of
    SENTINEL is not there: then nothing else in the trace can be believed either.
    """
    trace = _Trace(document)
    trace.require_sentinel()
    begin, end = trace.only(BEGIN)["ts"], trace.only(END)["ts"]
    calls = [call for call in trace.calls if begin <= call["ts"] < end]
    launched = {call["args"]["correlation"]: call for call in calls if "correlation" in call["args"]}
    copied = {}
    for event in trace.on_device:
        call = launched.get(event["args"].get("correlation"))
        if call is None or trace.is_aside(call):
            continue
        number = trace.operation_at(call)
        operation = None if number is None else operations[number]
        if event["cat"] == "kernel":
            _kernel(log, event, operation, begin)
        else:
            copied[number] = _copy(log, event, operation, begin)
    _waits(log, trace, calls, operations, copied, begin, wait_lines or {})


class _Trace:
    """The events that matter, by kind and in order of time."""

    def __init__(self, document: dict) -> None:
        events = sorted((e for e in document["traceEvents"] if e.get("ph") == "X"), key=lambda e: e["ts"])
        self.calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
        self.on_device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
        self._ranges = [e for e in events if e.get("cat") == "user_annotation"]
        self._numbered = [e for e in self._ranges if e["name"].removeprefix("gpulab:").isdecimal()]
        self._starts = [e["ts"] for e in self._numbered]
        self._asides = [e for e in self._ranges if e["name"] == ASIDE]

    def only(self, name: str) -> dict:
        """The one range of this name."""
        found = [e for e in self._ranges if e["name"] == name]
        if len(found) != 1:
            raise InstrumentError(f"the profiler's trace has {len(found)} marks {name!r}, not one")
        return found[0]

    def require_sentinel(self) -> None:
        """Raise InstrumentError unless the kernel that the instrument launched itself is there."""
        mark = self.only(SENTINEL)
        calls = {c["args"].get("correlation") for c in self.calls if _within(c, mark)}
        if not any(e["cat"] == "kernel" and e["args"].get("correlation") in calls for e in self.on_device):
            raise InstrumentError(
                "the profiler did not record a kernel that observe() launched itself: another "
                "profiler may hold the GPU (CUPTI serves one at a time), or this user may not profile"
            )

    def is_aside(self, call: dict) -> bool:
        """Whether an instrument made ``call`` for itself."""
        return any(_within(call, aside) for aside in self._asides)

    def operation_at(self, call: dict) -> int | None:
        """The number of the operation during which the host made ``call``."""
        position = bisect_right(self._starts, call["ts"]) - 1
        if position < 0 or not _within(call, self._numbered[position]):
            return None
        return int(self._numbered[position]["name"].removeprefix("gpulab:"))


def _within(event: dict, outer: dict) -> bool:
    return event.get("tid") == outer.get("tid") and outer["ts"] <= event["ts"] < outer["ts"] + outer["dur"]


def _kernel(log: DeviceLog, event: dict, operation: Operation | None, begin: float) -> None:
    start = event["ts"] - begin
    stream, line = _stream_and_line(event, operation)
    log.kernel(event["name"], stream, start, start + event["dur"], None, None, None, line)


def _copy(log: DeviceLog, event: dict, operation: Operation | None, begin: float) -> str | None:
    """The kind of the copy and of its host memory; None for one inside the device."""
    name, start = event["name"], event["ts"] - begin
    kind = next((kind for kind in ("HtoD", "DtoH") if kind in name), None)
    if kind is None:
        return None
    pinned = "Pinned" in name
    stream, line = _stream_and_line(event, operation)
    log.copy(kind, int(event["args"]["bytes"]), pinned, stream, start, start + event["dur"], line)
    return f"copy {kind}, {'pinned' if pinned else 'pageable'} memory"


def _stream_and_line(event: dict, operation: Operation | None) -> tuple[int, SourceLine | None]:
    if operation is None:
        return event["args"]["stream"], None
    return operation.stream, operation.line


def _waits(log, trace, calls, operations, copied: dict, begin: float, wait_lines: dict) -> None:
    lines = {name: iter(found) for name, found in wait_lines.items()}
    for call in calls:
        if call["name"] not in _WAITS:
            continue
        number, start = trace.operation_at(call), call["ts"] - begin
        line = next(lines.get(call["name"], iter(())), None)
        if trace.is_aside(call):
            continue
        reason = call["name"]
        if number is not None:
            operation = operations[number]
            reason = operation.name if "_local_scalar_dense" in operation.name else copied.get(number)
            reason, line = reason or operation.name, operation.line
        log.wait(reason, start, start + call["dur"], line)
