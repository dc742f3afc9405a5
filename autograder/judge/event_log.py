"""Append-only log of one case's events, and the check that a later observation matches it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from autograder.protocol.event_sink import BLOCK, INPUT_ADDRESSES, MAX_EVENT_BYTES, NOTE

_LISTS_BY_KIND = {
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
    """The encoded events of one case, in order of arrival: append-only, up to MAX_EVENT_BYTES."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self._bytes = 0

    def add(self, data: bytes) -> None:
        if self._bytes <= MAX_EVENT_BYTES:
            self.events.append(data)
            self._bytes += len(data)


def input_addresses(events: Sequence[bytes]) -> list[int]:
    """Storage addresses of the tensors passed to the learner's function, by the first such event; empty without one."""
    return next(iter(_by_kind(events)[INPUT_ADDRESSES]), [])


def notes(events: Sequence[bytes]) -> list:
    """What the scenario noted, in order: words, and lists of a word and a value."""
    return _by_kind(events)[NOTE]


def disagreement(events: Sequence[bytes], seen: dict[str, Any]) -> str | None:
    """Why the plain data of an observation does not match the logged events, or None.

    Raises msgspec.DecodeError, KeyError or TypeError on what is no record.
    """
    records = _by_kind(events)
    if len(records[BLOCK]) != 1:
        return "no event was logged for it" if not records[BLOCK] else "more than one observation was begun"
    for kind, name in _LISTS_BY_KIND.items():
        expected = _EXPECTED.get(kind, list)(records[kind])
        # What a GPU did is not known where its instrument came too late.
        if expected != (seen[name] or []):
            return f"its {name} are not those of the event log"
    if _without_order(records["saved"]) != _without_order(seen.get("saved") or []):
        return "the tensors saved by autograd are not those of the event log"
    if sum(op["new_bytes"] for op in records["op"]) + sum(records["new"]) != seen["new_bytes"]:
        return "its allocated bytes are not those of the event log"
    if max((op["live_bytes"] for op in records["op"]), default=0) > seen["peak_bytes"]:
        return "the event log has more live bytes than its peak"
    return None


def _by_kind(events: Sequence[bytes]) -> defaultdict[str, list]:
    records = defaultdict(list)
    for data in events:
        kind, record = msgspec.msgpack.decode(data, type=tuple[str, Any])
        records[kind].append(record)
    return records


def _without_order(saved: list) -> list[bytes]:
    """Sorted, without ``kept``: an event is sent when its operation is known, and only the end knows what is kept."""
    return sorted(
        msgspec.msgpack.encode({name: value for name, value in record.items() if name != "kept"}) for record in saved
    )


def _each_once(records: list) -> list:
    """In the order of their first time."""
    return list({msgspec.msgpack.encode(record): record for record in records}.values())


def _newest(records: list) -> list:
    """A collective is logged when posted and again when completed: the later event replaces the earlier one."""
    return list({record["number"]: record for record in records}.values())


_EXPECTED = {"race": _each_once, "collective": _newest}
