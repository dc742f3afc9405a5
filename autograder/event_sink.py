"""An instrument's records leave the process as they are made.

What a learner's code edits afterwards on the notebook's heap is then no longer what is judged:
the referee compares an observation with what it was told while it came about.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from autograder.wire import MAX_BODY_BYTES

MAX_EVENT_BYTES = 2 * MAX_BODY_BYTES
"""Of a case. Evidence that holds as many records could not cross either."""

BLOCK = "block"
"""The kind of a block's first record."""

INPUT_ADDRESSES = "handed"
"""The kind of the record that tells what a function is handed."""

LIBRARY_CALL = "called"
"""The kind of the record that tells which library was called."""

_out: Callable[[bytes], None] | None = None
_called: set[str] = set()


@contextmanager
def sending_events(out: Callable[[bytes], None]) -> Iterator[None]:
    """Blocks that begin inside tell their records to ``out``, each in bytes."""
    global _out, _called
    before = _out, _called
    _out, _called = out, set()
    try:
        yield
    finally:
        _out, _called = before


def observation_sink() -> Callable[[str, object], None]:
    """For one block of ``gpulab.observe``: says that it has begun, and then each of its records."""
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


def emit_input_addresses(places: list[int]) -> None:
    """Where the storages lie that the learner's function is about to be handed."""
    if _out is not None:
        _out(msgspec.msgpack.encode((INPUT_ADDRESSES, places)))


def emit_library_call(library: str) -> None:
    """That the learner's code called a library, when it first does."""
    if _out is not None and library not in _called:
        _called.add(library)
        _out(msgspec.msgpack.encode((LIBRARY_CALL, library)))
