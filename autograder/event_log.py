"""What the referee was told of a case while it was played, and whether an observation is that."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from autograder.event_sink import BLOCK, INPUT_ADDRESSES, LIBRARY_CALL, MAX_EVENT_BYTES

_LISTS = {
    "op": "ops",
    "copy": "copies",
    "kernel": "kernels",
    "wait": "waits",
    "race": "races",
    "launch": "launches",
    "collective": "collectives",
    "batch": "batches",
}


class EventLog:
    """What one case's block told, in order; it only grows, up to MAX_TOLD_BYTES."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self._bytes = 0

    def add(self, data: bytes) -> None:
        if self._bytes <= MAX_EVENT_BYTES:
            self.events.append(data)
            self._bytes += len(data)


def input_addresses(events: Sequence[bytes]) -> list[int]:
    """Where the storages lay that the learner's function was handed, as it was told first; empty when it was not."""
    return next(iter(_by_kind(events)[INPUT_ADDRESSES]), [])


def libraries_called(events: Sequence[bytes]) -> list[str]:
    """The libraries that were called, each once, as it was told at the time."""
    return list(dict.fromkeys(_by_kind(events)[LIBRARY_CALL]))


def disagreement(events: Sequence[bytes], seen: dict[str, Any]) -> str | None:
    """Why an observation's plain data is not that of the block that told its records, or None.

    Raises msgspec.DecodeError, KeyError or TypeError on what is no record.
    """
    records = _by_kind(events)
    if len(records[BLOCK]) != 1:
        return "it was not told while it came about" if not records[BLOCK] else "more than one was begun"
    for kind, name in _LISTS.items():
        due = _DUE.get(kind, list)(records[kind])
        # What a GPU did is not known where its instrument came too late.
        if due != (seen[name] or []):
            return f"its {name} are not those that were told as they came about"
    if _without_order(records["saved"]) != _without_order(seen.get("saved") or []):
        return "what autograd saved is not what was told as it came about"
    if sum(op["new_bytes"] for op in records["op"]) + sum(records["new"]) != seen["new_bytes"]:
        return "what it allocated is not what was told"
    if max((op["live_bytes"] for op in records["op"]), default=0) > seen["peak_bytes"]:
        return "more was alive than at its peak"
    return None


def _by_kind(events: Sequence[bytes]) -> defaultdict[str, list]:
    records = defaultdict(list)
    for data in events:
        kind, record = msgspec.msgpack.decode(data, type=tuple[str, Any])
        records[kind].append(record)
    return records


def _without_order(saved: list) -> list[bytes]:
    """Told when the operation is known; whether it is still kept is known at the end alone."""
    return sorted(
        msgspec.msgpack.encode({name: value for name, value in record.items() if name != "kept"}) for record in saved
    )


def _each_once(records: list) -> list:
    """In the order of their first time."""
    return list({msgspec.msgpack.encode(record): record for record in records}.values())


def _newest(records: list) -> list:
    """A collective is told when it is posted and when it has ended: the second counts, in the place of the first."""
    return list({record["number"]: record for record in records}.values())


_DUE = {"race": _each_once, "collective": _newest}
