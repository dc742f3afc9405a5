"""Reads Chrome traces as Kineto has written them since 2021, on NVIDIA's and AMD's cards and on the virtual one."""

import gzip
import json
import math
import re
import zlib
from os import PathLike
from pathlib import Path

from gpulab.traces import events as kinds
from gpulab.traces.events import STEP, Event, Trace

# Kineto's categories, in lower case: those of 2021 (Operator, Kernel, Runtime, Memcpy) and today's.
_KINDS = {
    "operator": kinds.OPERATION, "cpu_op": kinds.OPERATION,
    "user_annotation": kinds.ANNOTATION,
    "runtime": kinds.CALL, "cuda_runtime": kinds.CALL, "cuda_driver": kinds.CALL, "hip_runtime": kinds.CALL,
    "kernel": kinds.KERNEL,
    "memcpy": kinds.COPY, "gpu_memcpy": kinds.COPY,
    "memset": kinds.SET, "gpu_memset": kinds.SET,
}  # fmt: skip
_COLLECTIVE = re.compile(r"nccl|rccl", re.IGNORECASE)
_GZIP = b"\x1f\x8b"


class NotATrace(ValueError):
    """What was given is no Chrome trace; the message says what it is instead."""


def read(source: str | PathLike | bytes | dict | list) -> Trace:
    """The trace in a file, in a file's bytes, or in what ``json.load`` made of one.

    Args:
        source: ``.json`` or ``.json.gz`` as ``export_chrome_trace`` and ``tensorboard_trace_handler`` write
            them; which of the two is seen from the bytes.

    Raises:
        NotATrace: for what is no JSON, has no list ``traceEvents``, no event of a profiler in it, or an
            event without a time. FileNotFoundError: for a path that leads nowhere.
    """
    if isinstance(source, (str, PathLike)):
        source = Path(source).read_bytes()
    document = _parsed(source) if isinstance(source, bytes) else source
    listed = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise NotATrace("no Chrome trace: the JSON has no list called traceEvents")
    raw = [each for each in listed if _is_known(each)]
    if not raw:
        raise NotATrace(f"none of the {len(listed)} events is a profiler's: no operation, call, kernel or copy")
    first = min(_number(each, "ts") for each in raw)
    events = sorted((_event(each, first) for each in raw), key=lambda event: (event.start, -event.end))
    about = document if isinstance(document, dict) else {}
    return Trace(tuple(events), _device_name(about), "modelled" in about)


def _parsed(raw: bytes):
    try:
        text = gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    except (EOFError, OSError, zlib.error) as error:
        raise NotATrace(f"the gzip file is cut off or broken: {error}") from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise NotATrace(f"no JSON: {error}; a trace whose writing was interrupted ends in the middle") from error


def _is_known(raw) -> bool:
    """Not what takes no time, or is none of the seven kinds: arrows, names, ranges drawn on the device."""
    return isinstance(raw, dict) and raw.get("ph") == "X" and str(raw.get("cat", "")).lower() in _KINDS


def _event(raw: dict, first: float) -> Event:
    name, kind = str(raw.get("name", "")), _KINDS[raw["cat"].lower()]
    if kind == kinds.OPERATION and STEP.fullmatch(name):
        kind = kinds.ANNOTATION
    start, took = _number(raw, "ts") - first, _number(raw, "dur")
    args = raw.get("args") or {}
    if kind not in kinds.ON_DEVICE:
        thread = (raw.get("pid"), str(raw.get("tid")))
        return Event(name, kind, start, start + took, thread=thread, correlation=_whole(args.get("correlation")))
    if kind == kinds.KERNEL and _COLLECTIVE.search(name):
        kind = kinds.COLLECTIVE
    return Event(
        name,
        kind,
        start,
        start + took,
        stream=_whole(args.get("stream", raw.get("tid"))),
        device=_whole(args.get("device", raw.get("pid"))),
        correlation=_whole(args.get("correlation")),
        bytes=_whole(args.get("bytes")),
    )


def _number(raw: dict, field: str) -> float:
    value = raw.get(field)
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or field == "dur"
        and value < 0
    ):
        raise NotATrace(f"the event {raw.get('name')!r} has no {field} that is a time: {value!r}")
    return value


def _whole(value) -> int | None:
    """The number in what may be one: 7, "7" and "stream 7" are the same stream."""
    if isinstance(value, str):
        digits = re.search(r"-?\d+$", value)
        return int(digits[0]) if digits else None
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _device_name(document: dict) -> str | None:
    properties = document.get("deviceProperties")
    return (
        str(properties[0].get("name"))
        if isinstance(properties, list) and properties and isinstance(properties[0], dict)
        else None
    )
