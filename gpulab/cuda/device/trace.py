"""What PyTorch's profiler would have been told by a card: events on the modelled clock."""

import json
from contextlib import contextmanager

from torch.autograd import DeviceType

from gpulab.cards.constants import LAUNCH_US
from gpulab.cuda.device.snapshot import python_frames
from gpulab.cuda.errors import NotModelled

_THREAD = 1
_DEFAULTS = {
    "overload_name": "", "shapes": [], "structured_input_shapes": [], "structured_input_strides": [],
    "dtypes": [], "concrete_inputs": [], "kwinputs": {}, "stack": [], "scope": 0, "flops": 0, "nbytes": 0,
    "start_thread_id": _THREAD, "end_thread_id": _THREAD, "fwd_thread_id": 0, "sequence_nr": -1,
    "is_async": False, "is_user_annotation": False, "is_python_function": False, "is_hidden_event": False,
    "correlation_id": 0, "linked_correlation_id": 0, "external_id": 0, "device_type": DeviceType.CPU,
    "device_index": -1, "device_resource_id": _THREAD, "metadata_json": "", "typed_metadata": {}, "extra_meta": {},
    "flow_id": 0, "flow_type": 0, "flow_start": False, "cuda_elapsed_us": -1,
    "python_id": -1, "python_parent_id": -1, "python_module_id": -1,
}  # fmt: skip


class Event:
    """One event as PyTorch's C++ hands it to its Python: a method for each fact. Times in nanoseconds."""

    def __init__(self, name: str, start_us: float, end_us: float, **facts) -> None:
        begin, end = round(start_us * 1e3), round(end_us * 1e3)
        times = {"name": name, "start_ns": begin, "end_ns": end, "duration_ns": end - begin}
        self.facts = {**_DEFAULTS, **times, **facts}

    def __getattr__(self, name: str):
        if name not in self.facts:
            raise NotModelled(f"{name}() of a profiler event")
        return lambda: self.facts[name]


class Trace:
    """Listens to the machine, as an Observation's log does, and to operations and named ranges."""

    def __init__(self, machine, config, cpu: bool, cuda: bool) -> None:
        self._machine, self._config = machine, config
        self._cpu, self._cuda = cpu, cuda
        self.start_us = machine.host_us
        self.events: list[Event] = []
        self.metadata: dict[str, str] = {}
        self._count = 0
        self._operation = 0
        self._open: list[tuple[str, float, int, dict]] = []
        self._last_launch: tuple[float, int] = (-1.0, 0)
        self._flops = 0

    # ---- what the machine says

    def kernel(self, name, stream, start_us, end_us, flops, bytes_read, bytes_written, line) -> None:
        self._flops += flops
        for *_, on_streams in self._open:
            begin, _ = on_streams.get(stream, (start_us, 0.0))
            on_streams[stream] = (begin, end_us)
        moved = {"bytes read": bytes_read, "bytes written": bytes_written}
        self._on_device(name, "kernel", "cudaLaunchKernel", stream, start_us, end_us, moved)

    def copy(self, kind, nbytes, pinned, stream, start_us, end_us, line) -> None:
        host = "Pinned" if pinned else "Pageable"
        way = f"{host} -> Device" if kind == "HtoD" else f"Device -> {host}"
        facts = {"bytes": nbytes}
        self._on_device(f"Memcpy {kind} ({way})", "gpu_memcpy", "cudaMemcpyAsync", stream, start_us, end_us, facts)

    def wait(self, reason, start_us, end_us, line) -> None:
        staged = reason.endswith("until staged")
        name = reason if reason.startswith("cuda") else "cudaMemcpyAsync" if staged else "cudaStreamSynchronize"
        self._on_host(name, start_us, end_us, "cuda_runtime", linked_correlation_id=self._operation)

    def race(self, first, second) -> None:
        pass

    def on_new(self, tensor) -> None:
        pass

    # ---- what the program does

    @contextmanager
    def operation(self, name: str, shapes=()):
        """An operation of PyTorch, from its call to its return."""
        if self._operation:
            yield
            return
        self._operation, start, self._flops = self._next(), self._machine.host_us, 0
        try:
            yield
        finally:
            number, self._operation = self._operation, 0
            facts = {"shapes": list(shapes)} if self._config.report_input_shapes else {}
            if self._config.with_flops:
                facts["flops"] = self._flops
            if self._config.with_stack:
                facts["stack"] = python_frames()
            self._on_host(name, start, self._machine.host_us, "cpu_op", correlation_id=number, **facts)

    @contextmanager
    def composite(self, name: str):
        """An operation that only calls others, which are listed too; of PyTorch's own the device is not told."""
        place, number, start = len(self.events), self._next(), self._machine.host_us
        try:
            yield
        finally:
            called = self.events[place:]
            del self.events[place:]
            self._on_host(name, start, self._machine.host_us, "cpu_op", correlation_id=number)
            self.events += called

    def enter_range(self, name: str) -> None:
        """``record_function`` begins."""
        self._open.append((name, self._machine.host_us, self._next(), {}))

    def leave_range(self) -> None:
        """The range that began last ends."""
        if not self._open:
            return
        name, start, number, on_streams = self._open.pop()
        annotation = {"is_user_annotation": True, "scope": 7}
        self._on_host(name, start, self._machine.host_us, "user_annotation", correlation_id=number, **annotation)
        for stream, (begin, end) in on_streams.items():
            self._add_on_device(name, begin, end, "gpu_user_annotation", stream, is_user_annotation=True)

    def finish(self) -> None:
        """The recording ends: close what is still open."""
        while self._open:
            self.leave_range()
        self.events.sort(key=lambda e: (e.facts["start_ns"], -e.facts["end_ns"], _rank(e)))

    # ---- events

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _on_host(self, name: str, start_us: float, end_us: float, kind: str, **facts) -> None:
        if self._cpu or kind == "cuda_runtime" and self._cuda:
            self.events.append(Event(name, start_us, end_us, activity_type=kind, **facts))

    def _on_device(self, name, kind, launched_by, stream, start_us, end_us, facts: dict) -> None:
        host_us = self._machine.host_us
        if not self._operation and name.startswith("aten.") and not self._machine.replaying:
            with self.operation(name.replace("aten.", "aten::", 1)):
                return self._on_device(name, kind, launched_by, stream, start_us, end_us, facts)
        if self._last_launch[0] != host_us:
            launched_by = "cudaGraphLaunch" if self._machine.replaying else launched_by
            self._last_launch = (host_us, self._next())
            self._on_host(
                launched_by,
                host_us - LAUNCH_US,
                host_us,
                "cuda_runtime",
                correlation_id=self._last_launch[1],
                linked_correlation_id=self._operation,
            )
        link = {"correlation_id": self._last_launch[1], "linked_correlation_id": self._operation}
        self._add_on_device(name, start_us, end_us, kind, stream, extra_meta=facts, **link)

    def _add_on_device(self, name: str, start_us: float, end_us: float, kind: str, stream: int, **facts) -> None:
        if self._cuda:
            where = {"device_type": DeviceType.CUDA, "device_index": 0, "device_resource_id": stream}
            self.events.append(Event(name, start_us, end_us, activity_type=kind, is_async=False, **where, **facts))


def _rank(event: Event) -> int:
    # Of two with the same times, the one that called the other comes first.
    kinds = ("user_annotation", "cpu_op", "cuda_runtime")
    return kinds.index(event.facts["activity_type"]) if event.facts["activity_type"] in kinds else len(kinds)


class Result:
    """What PyTorch's Python gets when a recording ends, in place of ``torch._C._ProfilerResult``."""

    def __init__(self, trace: Trace, card) -> None:
        self._trace, self._card = trace, card

    def events(self) -> list[Event]:
        return self._trace.events

    def trace_start_ns(self) -> int:
        return round(self._trace.start_us * 1e3)

    def save(self, path: str) -> None:
        """Write the Chrome trace, in the form that Kineto gives it."""
        metadata = {key: json.loads(value) for key, value in self._trace.metadata.items()}
        properties = {
            "id": 0,
            "name": f"{self._card.name} (virtual)",
            "totalGlobalMem": self._card.memory_bytes,
            "computeMajor": self._card.capability[0],
            "computeMinor": self._card.capability[1],
            "numSms": self._card.multiprocessors,
        }
        document = {
            "schemaVersion": 1,
            "deviceProperties": [properties],
            "modelled": "times come from gpulab's machine model, not from a GPU",
            **metadata,
            "displayTimeUnit": "ms",
            "traceEvents": [*_names(), *(e for event in self.events() for e in _as_chrome(event))],
        }
        with open(path, "w") as file:
            json.dump(document, file)

    def __getattr__(self, name: str):
        raise NotModelled(f"{name} of a profiler's result")


def _names() -> list[dict]:
    def named(kind: str, process, label: str, thread=0) -> dict:
        return {"name": kind, "ph": "M", "ts": 0, "pid": process, "tid": thread, "args": {"name": label}}

    return [
        named("process_name", "host", "python (modelled host)"),
        named("thread_name", "host", "main thread", _THREAD),
        named("process_name", 0, "GPU 0 (virtual)"),
    ]


def _as_chrome(event: Event) -> list[dict]:
    facts = event.facts
    on_card = facts["device_type"] == DeviceType.CUDA
    process, thread = (0, facts["device_resource_id"]) if on_card else ("host", _THREAD)
    start_us = facts["start_ns"] / 1e3
    args = {"External id": facts["linked_correlation_id"] or facts["correlation_id"], **facts["extra_meta"]}
    if on_card:
        args |= {"device": 0, "stream": thread}
    kind = facts["activity_type"]
    if kind in ("kernel", "gpu_memcpy", "cuda_runtime"):
        args["correlation"] = facts["correlation_id"]
    shared = {"name": facts["name"], "pid": process, "tid": thread, "ts": start_us}
    shown = [{**shared, "ph": "X", "cat": kind, "dur": facts["duration_ns"] / 1e3, "args": args}]
    arrow = {
        "cat": "ac2g",
        "id": facts["correlation_id"],
        "pid": process,
        "tid": thread,
        "ts": start_us,
        "name": "ac2g",
    }
    if kind in ("kernel", "gpu_memcpy"):
        shown.append({**arrow, "ph": "f", "bp": "e"})
    elif kind == "cuda_runtime" and facts["correlation_id"]:
        shown.append({**arrow, "ph": "s"})
    return shown
