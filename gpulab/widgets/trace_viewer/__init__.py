"""A profiler's trace in the page: one that is shipped, and whichever the reader opens from disk."""

import gzip
import json
from os import PathLike
from pathlib import Path

import anywidget
import traitlets

from gpulab.traces.public import PUBLIC
from gpulab.traces.reader import read
from gpulab.widgets._source import module, style

EXAMPLE = PUBLIC / "nccl_excerpt.json.gz"
_FIELDS = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
_ARGS = ("device", "stream", "correlation")


class TraceViewer(anywidget.AnyWidget):
    """Threads and streams in lanes, to zoom and pan; the chosen event's self and total time; exposed communication shaded.

    Args:
        trace: a file as ``gpulab.traces.read`` takes it, or what ``json.load`` made of one. Without it, 50 ms of a
            backward pass under DDP on two A100s. All of it goes into the page: keep it to some thousand events.
        label: its heading.

    Raises:
        NotATrace: as ``gpulab.traces.read`` does.
    """

    _esm = module("trace_viewer")
    _css = style("trace_viewer")
    trace = traitlets.Dict().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)

    def __init__(self, trace: str | PathLike | dict | None = None, label: str | None = None):
        if trace is None:
            label = label or "Backward pass of a ResNet under DDP, rank 0 of 2, A100: 50 ms"
        super().__init__(trace=_small(_document(EXAMPLE if trace is None else trace)), label=label or "A trace")


def _document(source) -> dict:
    if isinstance(source, dict):
        read(source)
        return source
    raw = Path(source).read_bytes()
    read(raw)
    found = json.loads(gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw)
    return found if isinstance(found, dict) else {"traceEvents": found}


def _small(document: dict) -> dict:
    """What the viewer draws, and nothing of paths, stacks and shapes."""
    return {"traceEvents": [_drawn(each) for each in document["traceEvents"] if each.get("ph") == "X"]}


def _drawn(raw: dict) -> dict:
    args = {key: raw["args"][key] for key in _ARGS if key in raw.get("args", {})}
    return {key: raw[key] for key in _FIELDS if key in raw} | ({"args": args} if args else {})
