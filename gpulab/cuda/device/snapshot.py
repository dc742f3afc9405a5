"""Memory history and snapshots, in the format that PyTorch's memory_viz reads."""

import os
import sys
from collections import deque

_FRAMES_KEPT = 16
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class History:
    """The allocator's actions since recording began, each with the Python stack behind it."""

    def __init__(self, device) -> None:
        self._allocator = device.machine.allocator
        self._machine = device.machine
        self.entries: deque[dict] = deque()
        self.frames: dict[int, list[dict]] = {}

    def record(self, enabled="all", context="all", stacks="all", max_entries=sys.maxsize, *rest, **options):
        """``_record_memory_history``: ``enabled=None`` stops."""
        if not enabled:
            self._allocator.trace = None
            return
        if options.get("clear_history"):
            self.entries.clear()
        self.entries = deque(self.entries, maxlen=min(int(max_entries), 1 << 20))
        self._allocator.trace = self._note

    def _note(self, action: str, address: int, size: int, stream: int) -> None:
        frames = _python_frames()
        if action == "alloc":
            self.frames[address] = frames
        entry = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": stream,
            "time_us": int(self._machine.host_us),
            "frames": frames,
            "pool_id": (0, 0),
        }
        if action == "oom":
            del entry["addr"]
            entry["device_free"] = self._allocator.capacity - self._allocator.reserved
        self.entries.append(entry)


def _python_frames() -> list[dict]:
    frames, frame = [], sys._getframe(2)
    while frame is not None and len(frames) < _FRAMES_KEPT:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            frames.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return frames


def python_frames() -> list[str]:
    """The stack as PyTorch's profiler writes it, innermost first."""
    frames = [f for f in _python_frames() if not f["filename"].endswith("contextlib.py")]
    return [f"{frame['filename']}({frame['line']}): {frame['name']}" for frame in frames]


def snapshot(allocator, history: History, pool: tuple | None = None) -> dict:
    """Segments with their blocks, and the history of the one device.

    ``pool``: only the segments of this memory pool. From (0, 0) and None there are all.
    """
    wanted = [s for s in allocator.segments.values() if not any(pool or ()) or s.pools.id == pool]
    return {
        "segments": [_segment(s, history) for s in sorted(wanted, key=lambda s: s.address)],
        "device_traces": [list(history.entries)],
        "allocator_settings": {"PYTORCH_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [],
    }


def _segment(segment, history: History) -> dict:
    blocks = [_block(b, history) for b in segment.blocks()]
    used = [b for b in segment.blocks() if b.allocated]
    active = [b for b in segment.blocks() if not b.is_free]
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.size,
        "allocated_size": sum(b.size for b in used),
        "active_size": sum(b.size for b in active),
        "requested_size": sum(b.requested for b in used),
        "stream": segment.stream,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": segment.pools.id,
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _block(block, history: History) -> dict:
    # What PyTorch writes; its documentation calls the second "active_awaiting_free".
    state = "active_allocated" if block.allocated else "active_pending_free"
    return {
        "address": block.address,
        "size": block.size,
        "requested_size": block.requested if not block.is_free else 0,
        "state": "inactive" if block.is_free else state,
        "frames": history.frames.get(block.address, []) if not block.is_free else [],
    }
