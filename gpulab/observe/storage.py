"""Storages: who shares one, how large it is, how many bytes are alive."""

import weakref

import torch


def storage_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the storage behind ``tensor``: all of it, not only what the view shows."""
    return tensor.untyped_storage().nbytes()


def shares_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True when ``a`` and ``b`` are backed by the same storage, whatever part each shows."""
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


class StorageLedger:
    """Every storage met while a block ran, and the bytes of new ones still alive.

    A storage counts as new when an operation returned it that had not been handed it.
    """

    def __init__(self) -> None:
        self._new: dict[int, int] = {}
        self._inputs: set[int] = set()
        self._watchers: dict[int, weakref.ref] = {}
        self.live_bytes = 0
        self.peak_bytes = 0
        self.new_bytes = 0

    def origin(self, tensor: torch.Tensor) -> str:
        """``"new"``, ``"input"``, or ``"unseen"`` when no operation ever touched its storage."""
        key = tensor.untyped_storage()._cdata
        if key in self._new:
            return "new"
        return "input" if key in self._inputs else "unseen"

    def sources(self, tensors: list[torch.Tensor]) -> tuple[frozenset[int], frozenset[int]]:
        """The tensors' storages, and those among them that no operation of the block made."""
        read = frozenset(tensor.untyped_storage()._cdata for tensor in tensors)
        return read, read - self._new.keys()

    def met_as_argument(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._new and storage._cdata not in self._inputs:
            self._inputs.add(storage._cdata)
            self._watch(storage)

    def met_as_result(self, tensor: torch.Tensor) -> int:
        """Account for a result; returns the bytes that are new with it."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._inputs:
            return 0
        if key not in self._new:
            self._watch(storage)
        grown = storage.nbytes() - self._new.get(key, 0)
        self._new[key] = storage.nbytes()
        self.new_bytes += max(grown, 0)
        self.live_bytes += grown
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return max(grown, 0)

    def _watch(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        self._watchers[key] = weakref.ref(storage, lambda _: self._freed(key))

    def _freed(self, key: int) -> None:
        # An address is used again once its storage is gone: forget it now.
        self._inputs.discard(key)
        self.live_bytes -= self._new.pop(key, 0)
        self._watchers.pop(key, None)
