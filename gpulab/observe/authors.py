"""Who wrote each byte of a tensor: a kernel of the learner's, a PyTorch operation, or nobody seen."""

import ctypes
import functools
import math
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from gpulab.compat.dispatch import OpOverload
from gpulab.observe import device

_FILLS_NOTHING = {
    f"aten.{name}"
    for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view")
}

_MOST_BYTES = 1 << 17
"""Of a storage that is looked at after every operation that writes to it."""


@dataclass(frozen=True)
class Authors:
    """Bytes of a tensor by who wrote them last inside the block.

    launch_bytes: kernels launched with :mod:`gpulab.kernels`. op_bytes: PyTorch operations.
    other_bytes: neither was seen to, or something else changed them since.
    """

    launch_bytes: int
    op_bytes: int
    other_bytes: int


class _Write(NamedTuple):
    """``first``: byte of the storage; an operation writes ``shape`` elements of ``size`` bytes, a launch ``mask`` bytes.

    ``read``: the storages that the operation was handed; ``outside``: those that no
    operation of the block made, and those that what it made was made of. ``digest``: of all that the storage
    held then, as far as it was looked at.
    """

    first: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    size: int = 0
    mask: np.ndarray | None = None
    values: np.ndarray | None = None
    read: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()
    digest: int | None = None

    def sign(self, authors: np.ndarray, number: int) -> None:
        if self.mask is None:
            _bytes(authors, self.first, self.shape, self.strides, self.size)[...] = number
        else:
            authors[self.first : self.first + self.mask.size][self.mask] = number

    def changed_since(self, present: np.ndarray) -> np.ndarray:
        """Which bytes of a launch's hold something else now: their places in the storage."""
        places = self.first + np.flatnonzero(self.mask)
        return places[present[places] != self.values]


class AuthorLedger:
    """The writes to every storage while a block ran, in order."""

    def __init__(self) -> None:
        self._writes: dict[int, list[_Write]] = {}
        self._watchers: dict[int, weakref.ref] = {}
        self._strange: set[int] = set()
        """Storages that somebody wrote to who was not seen."""

    def before(self, func: OpOverload, args: tuple, kwargs: dict) -> None:
        """``func`` is about to run: what it will write to is as the operation before left it, or strange."""
        if not _written_places(func):
            return
        for tensor in _written_arguments(func, args, kwargs):
            key = tensor.untyped_storage()._cdata
            if _changed(tensor, self._writes.get(key, [])):
                self._strange.add(key)

    def operation(
        self,
        func: OpOverload,
        args: tuple,
        kwargs: dict,
        results: list[torch.Tensor],
        read: frozenset[int] = frozenset(),
        outside: frozenset[int] = frozenset(),
    ) -> None:
        """``func`` ran: what it returned or wrote in place is its work, unless it only looked."""
        if not _computes(func):
            return
        if _takes_only_a_shape(func):
            read = outside = frozenset()
        outside = outside.union(*(write.outside for key in read for write in self._writes.get(key, ())))
        made = (*results, *_written_arguments(func, args, kwargs))
        on_host = not any(value.is_cuda for value in made) and not any(
            isinstance(value, torch.Tensor) and value.is_cuda for value in args
        )
        for tensor in made:
            if tensor.numel() and tensor.layout is torch.strided:
                size, shape, strides = tensor.element_size(), tensor.shape, tensor.stride()
                digest = _digest(tensor) if on_host else None
                write = _Write(tensor.storage_offset() * size, shape, strides, size, None, None, read, outside, digest)
                self._add(tensor, write, whole=tensor.nbytes == tensor.untyped_storage().nbytes())

    def launch(self, tensor: torch.Tensor, mask: np.ndarray) -> None:
        """A launch wrote those bytes of ``tensor``, counted from its first element. mask: bool."""
        first = tensor.storage_offset() * tensor.element_size()
        values = memory(tensor)[first : first + mask.size][mask] if _on_host(tensor) else None
        self._add(tensor, _Write(first, mask=mask, values=values))

    def authors(self, tensor: torch.Tensor) -> Authors:
        """Who wrote the elements that ``tensor`` shows."""
        storage, size = tensor.untyped_storage(), tensor.element_size()
        writes = self._writes.get(storage._cdata, [])
        signed = np.zeros(storage.nbytes(), np.int32)
        for number, write in enumerate(writes, 1):
            write.sign(signed, number)
        if storage._cdata in self._strange or _changed(tensor, writes):
            signed[:] = 0
        for number, write in enumerate(writes, 1):
            if write.values is not None:
                changed = write.changed_since(memory(tensor))
                signed[changed[signed[changed] == number]] = 0
        shown = _bytes(signed, tensor.storage_offset() * size, tensor.shape, tensor.stride(), size)
        by_launch = [number for number, write in enumerate(writes, 1) if write.mask is not None]
        launched, nobody = int(np.isin(shown, by_launch).sum()), int((shown == 0).sum())
        return Authors(launched, math.prod(shown.shape) - launched - nobody, nobody)

    def made_of(self, tensor: torch.Tensor, origin: torch.Tensor) -> bool:
        """Whether operations wrote all of ``tensor`` from ``origin`` and from what the block's operations made."""
        source = origin.untyped_storage()._cdata
        writes = self._writes.get(tensor.untyped_storage()._cdata, [])
        made = [write for write in writes if write.read and write.mask is None]
        if tensor.untyped_storage()._cdata in self._strange or _changed(tensor, writes):
            return False
        if not all(write.outside == {source} for write in made):
            return False
        return sum(math.prod(write.shape) * write.size for write in made) >= tensor.nbytes

    def _add(self, tensor: torch.Tensor, write: _Write, whole: bool = False) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._watchers:
            self._watchers[key] = weakref.ref(storage, lambda _: self._forget(key))
        if whole:  # what is overwritten altogether has no author left
            self._writes[key] = []
        self._writes.setdefault(key, []).append(write)

    def _forget(self, key: int) -> None:
        self._writes.pop(key, None)
        self._watchers.pop(key, None)
        self._strange.discard(key)


def _bytes(signed: np.ndarray, first: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> np.ndarray:
    """Of ``signed``, an int32 for each byte of a storage, those of elements of ``size`` bytes."""
    strides = (*(4 * size * stride for stride in strides), 4)
    return np.lib.stride_tricks.as_strided(signed[first:], (*shape, size), strides)


def _changed(tensor: torch.Tensor, writes: list[_Write]) -> bool:
    """Whether the storage holds something else than its newest operation left there: who wrote that was not seen."""
    return bool(writes) and writes[-1].digest not in (None, _digest(tensor))


def _digest(tensor: torch.Tensor) -> int | None:
    """Of the storage of a plain host tensor; None where it is large, which would take long after every operation."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return None
    held = memory(tensor)
    return zlib.crc32(held) if held.size <= _MOST_BYTES else None


@functools.cache
def computes(name: str) -> bool:
    """Whether the operation of that name (``aten.add``) computes or moves elements.

    False for one that only gives a view, reads, or allocates memory without filling it.
    """
    namespace, _, base = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if packet is None:
        # An operation of somebody's own, which this process does not know: it may do anything.
        return True
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return any(_computes(func) for func in overloads if _takes_tensors(func))


@functools.cache
def _computes(func: OpOverload) -> bool:
    if func._schema.name.replace("::", ".") in _FILLS_NOTHING:
        return False
    returns, arguments = func._schema.returns, func._schema.arguments
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
    return writes or any(r.alias_info is None for r in returns if "Tensor" in str(r.type))


@functools.cache
def _written_places(func: OpOverload) -> tuple[tuple[int, str], ...]:
    """Of each argument that ``func`` writes its position and its name."""
    return tuple(
        (position, argument.name)
        for position, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )


@functools.cache
def _takes_only_a_shape(func: OpOverload) -> bool:
    name = func._schema.name.removeprefix("aten::")
    return name.endswith("_like") or name.startswith("new_")


def _takes_tensors(func: OpOverload) -> bool:
    return any("Tensor" in str(argument.type) for argument in func._schema.arguments)


def _written_arguments(func: OpOverload, args: tuple, kwargs: dict) -> Iterable[torch.Tensor]:
    for position, name in _written_places(func):
        value = args[position] if position < len(args) else kwargs.get(name)
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor


def _on_host(tensor: torch.Tensor) -> bool:
    # The virtual card's memory is the host's.
    return not tensor.is_cuda or device.device() is not None


def memory(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor's storage, without an operation that anyone would see."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return np.zeros(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr()))
