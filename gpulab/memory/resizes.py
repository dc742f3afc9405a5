"""Storages that are resized with no operation, as FSDP frees and restores its parameters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

Storage = torch.UntypedStorage


@contextmanager
def heard(hear: Callable[[torch.UntypedStorage], None]) -> Iterator[None]:
    """While the block runs ``hear(storage)`` is called after every ``storage.resize_(nbytes)``."""
    before, own = Storage.resize_, "resize_" in Storage.__dict__

    def resize_(self, nbytes: int):
        before(self, nbytes)
        hear(self)
        return self

    Storage.resize_ = resize_
    try:
        yield
    finally:
        if own:
            Storage.resize_ = before
        else:
            del Storage.resize_
