"""An instrument's records leave the process as they are made.

What a learner's code edits afterwards on the notebook's heap is then no longer what is judged:
the referee compares an observation with what it was told while it came about.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from autograder.wire import MAX_BODY_BYTES

MAX_TOLD_BYTES = 2 * MAX_BODY_BYTES
"""Of a case. Evidence that holds as many records could not cross either."""

BLOCK = "block"
"""The kind of a block's first record."""

HANDED = "handed"
"""The kind of the record that tells what a function is handed."""

_out: Callable[[bytes], None] | None = None


@contextmanager
def telling(out: Callable[[bytes], None]) -> Iterator[None]:
    """Blocks that begin inside tell their records to ``out``, each in bytes."""
    global _out
    before, _out = _out, out
    try:
        yield
    finally:
        _out = before


def teller() -> Callable[[str, object], None]:
    """For one block of ``gpulab.observe``: says that it has begun, and then each of its records."""
    out, told = _out, 0

    def tell(kind: str, record: object) -> None:
        nonlocal told
        if out is None or told > MAX_TOLD_BYTES:
            return
        data = msgspec.msgpack.encode((kind, record), enc_hook=repr)
        told += len(data)
        out(data)

    tell(BLOCK, None)
    return tell


def tell_handed(places: list[int]) -> None:
    """Where the storages lie that the learner's function is about to be handed."""
    if _out is not None:
        _out(msgspec.msgpack.encode((HANDED, places)))
