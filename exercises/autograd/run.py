"""Chapter "Autograd as a memory system": what its exercises share beside the learner's functions."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collector() -> Iterator[None]:
    """What a cycle holds stays in memory inside the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def plain(value: object) -> object:
    return float.__add__(value, 0.0) if isinstance(value, float) else value
