"""Sends each record of an instrument out of the process as soon as it is made.

A learner's code can edit an observation afterwards, but not the events already sent: the referee compares the two.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from autograder.protocol.limits import MAX_BODY_BYTES

MAX_EVENT_BYTES = 2 * MAX_BODY_BYTES
"""Per case. Evidence with that many records would be too large to send, too."""

BLOCK = "block"
"""The kind of an observation's first event."""

INPUT_ADDRESSES = "input_addresses"
"""The kind of the event with the storage addresses of a function's arguments."""

NOTE = "note"
"""The kind of the event that holds what a scenario noted: a word, or a word and a value."""

_out: Callable[[bytes], None] | None = None


@contextmanager
def sending_events(out: Callable[[bytes], None]) -> Iterator[None]:
    """Observations that begin inside the block send their encoded events to ``out``."""
    global _out
    before, _out = _out, out
    try:
        yield
    finally:
        _out = before


def observation_sink() -> Callable[[str, object], None]:
    """A sink for one ``gpulab.observe`` block: sends a BLOCK event, then an event for each ``(kind, record)``."""
    out, events = _out, 0

    def emit(kind: str, record: object) -> None:
        nonlocal events
        if out is None or events > MAX_EVENT_BYTES:
            return
        data = msgspec.msgpack.encode((kind, record), enc_hook=repr)
        events += len(data)
        out(data)

    emit(BLOCK, None)
    return emit


def emit_input_addresses(addresses: list[int]) -> None:
    """Send the storage addresses of the tensors about to be passed to the learner's function."""
    if _out is not None:
        _out(msgspec.msgpack.encode((INPUT_ADDRESSES, addresses)))


_NOTHING = object()


def emit_note(word: str, value: object = _NOTHING) -> None:
    """Send what the scenario saw of a call of the learner's, at the time: it cannot be taken back.

    value: of Python's plain types; ``bytes`` for what a tensor holds. A judge finds it by its word
    (:func:`autograder.judge.notes.noted`). What is handed to a learner's function keeps nothing else of it.
    """
    if _out is not None:
        _out(msgspec.msgpack.encode((NOTE, word if value is _NOTHING else (word, value))))
