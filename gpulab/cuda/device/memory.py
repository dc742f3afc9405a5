"""Which storages live on the device, and which host storages are pinned."""

import ctypes
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from gpulab.cards import constants as assumed
from gpulab.cuda.device.gpu_trace import listeners, tell
from gpulab.cuda.errors import NotModelled
from gpulab.cuda.machine.allocator import OutOfMemory
from gpulab.cuda.machine.blocks import Block
from gpulab.cuda.machine.machine import EventSnapshot, Machine, staging_us
from gpulab.cuda.machine.order import AccessHistory, Extent
from gpulab.cuda.machine.strides import cells_of

_MOST_WATCHED_BYTES = 1 << 24
"""Of page-locked memory that a copy reads, and that is looked at until the copy has ended."""

_TOLD_OF_ALLOCATION, _TOLD_OF_DEALLOCATION = listeners("MemoryAllocation"), listeners("MemoryDeallocation")


class Held(weakref.ref):
    """A storage on the device, weakly: its block, its size in bytes, and the host address of what stands for it.

    ``key``: the address of the storage itself. ``place``: what CUDA graphs know of it, weakly; None where none uses it.
    """

    __slots__ = ("key", "block", "accesses", "nbytes", "here", "place")


class DeviceMemory:
    """Gives each storage of a device tensor a block, and frees it with the storage.

    ``held``: by the address of the storage. ``on_leave``: told of each that is about to go from its block, and
    how many of its bytes are still where they were.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.held: dict[int, Held] = {}
        self.on_new = self.on_leave = None
        self._busy, self._late = False, []
        self._reserved: Block | None = None

    def holds(self, storage: torch.UntypedStorage) -> bool:
        return storage._cdata in self.held

    def refuse_on_host(self, tensor: torch.Tensor, op: str) -> None:
        """Raise NotModelled for a host tensor over device memory: nothing on a card makes one."""
        if not tensor.is_cuda and self.holds(tensor.untyped_storage()):
            raise NotModelled(f"{op} on a host tensor that shows device memory")

    def of(self, tensor: torch.Tensor) -> Held:
        """The block behind a device tensor, allocated when its storage is new.

        Raises torch.OutOfMemoryError.
        """
        storage = tensor.untyped_storage()
        held = self.held.get(storage._cdata)
        if held is None:
            return self.adopt(storage)
        return held

    def adopt(self, storage: torch.UntypedStorage) -> Held:
        """A new storage: take memory for it."""
        key, nbytes = storage._cdata, storage.nbytes()
        address = storage.data_ptr()
        take = self._malloc if self._reserved is None else self._block
        block = take(nbytes) if nbytes else None
        self.held[key] = held = Held(storage, self._freed)
        held.key, held.block, held.nbytes, held.here, held.place = key, block, nbytes, address, None
        held.accesses = AccessHistory() if block is None else block.accesses
        if _TOLD_OF_ALLOCATION:
            tell("MemoryAllocation", address)
        if self.on_new is not None:
            self.on_new(storage)
        return held

    def moves(self, storage: torch.UntypedStorage) -> None:
        """The storage is about to be resized: a CUDA graph goes on using the bytes that it had."""
        held = self.held.get(storage._cdata)
        if held is not None and held.place is not None:
            self.on_leave(held, held.nbytes)

    def resized(self, storage: torch.UntypedStorage) -> None:
        """The storage may have grown: then it has moved to a new block."""
        held = self.held.get(storage._cdata) or self.adopt(storage)
        nbytes, held.here = storage.nbytes(), storage.data_ptr()
        if nbytes == held.nbytes:
            return
        fresh = self._malloc(nbytes) if nbytes else None
        if held.block is not None:
            if self.on_leave is not None:
                self.on_leave(held, min(nbytes, held.nbytes))
            self._free(held.block)
        held.block, held.nbytes = fresh, nbytes
        held.accesses = AccessHistory() if fresh is None else fresh.accesses

    @contextmanager
    def room_for(self, nbytes: int) -> Iterator[None]:
        """Inside the block a new storage of ``nbytes`` finds its memory taken. Raises torch.OutOfMemoryError before."""
        self._reserved = self._malloc(nbytes)
        try:
            yield
        finally:
            if self._reserved is not None:
                self._free(self._reserved)
                self._reserved = None

    def _block(self, nbytes: int) -> Block:
        block = self._reserved
        if block is None or block.requested != nbytes:
            return self._malloc(nbytes)
        self._reserved = None
        return block

    def use_for_a_moment(self, nbytes: int) -> None:
        """A temporary of ``nbytes`` that the program does not see. Raises torch.OutOfMemoryError."""
        self._free(self._malloc(nbytes))

    def used_by(self, tensor: torch.Tensor, stream: int) -> None:
        """``Tensor.record_stream``: the block is not reused before ``stream`` is done with it."""
        held = self.of(tensor)
        if held.block is not None:
            held.block.stream_uses |= {stream}

    def _malloc(self, nbytes: int) -> Block:
        self._busy = True
        try:
            return self._machine.malloc(nbytes)
        except OutOfMemory as why:
            raise torch.OutOfMemoryError(str(why)) from None
        finally:
            self._busy = False
            if self._late:
                self._free(self._late.pop())

    def _free(self, block: Block) -> None:
        """Give ``block`` back. Python's garbage collector may ask in the middle of the allocator's work: then later."""
        if self._busy:
            self._late.append(block)
            return
        self._busy = True
        try:
            self._machine.allocator.free(block)
            while self._late:
                self._machine.allocator.free(self._late.pop())
        finally:
            self._busy = False

    def _freed(self, held: Held) -> None:
        if self.held.get(held.key) is held:
            del self.held[held.key]
        if _TOLD_OF_DEALLOCATION:
            tell("MemoryDeallocation", held.here)
        if held.block is not None:
            if self.on_leave is not None:
                # Storages of PyTorch are freed after their weak references: the bytes are still there.
                self.on_leave(held, held.nbytes)
            self._free(held.block)


class _Sent(NamedTuple):
    """Bytes ``[low, high)`` of the pinned storage ``key``, which a copy reads until ``mark``, and what they were."""

    key: int
    mark: EventSnapshot
    low: int
    high: int
    digest: int


def _digest(storage: torch.UntypedStorage, low: int, high: int) -> int:
    return zlib.crc32((ctypes.c_char * (high - low)).from_address(storage.data_ptr() + low))


class PinnedMemory:
    """Page-locked host storages, each with the accesses that copies make to it.

    As in PyTorch's caching host allocator a block has a power of two of bytes, and one that was
    freed is handed out again when the copies that used it have ended; else cudaHostAlloc takes
    its time. ``bytes_in_all``: how much was asked for so far, what is free again included.
    """

    def __init__(self, machine: Machine) -> None:
        self.bytes_in_all = 0
        self._machine = machine
        self._histories: dict[int, AccessHistory] = {}
        self._watchers: dict[int, weakref.ref] = {}
        self._used_by: dict[int, set[int]] = {}
        self._sent: list[_Sent] = []
        self._free: list[tuple[int, list]] = []

    def __bool__(self) -> bool:
        return bool(self._histories)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Call the storage of a host tensor page-locked; returns ``tensor``."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._histories and storage.nbytes():
            size = 1 << (storage.nbytes() - 1).bit_length()
            self._take(size)
            self._histories[key] = AccessHistory()
            self._used_by[key] = set()
            self.bytes_in_all += storage.nbytes()
            self._watchers[key] = weakref.ref(storage, lambda _: self._freed(key, size))
        return tensor

    def accesses_of(self, tensor: torch.Tensor) -> AccessHistory | None:
        """None when the tensor's memory is pageable."""
        if not self._histories:
            return None
        return self._histories.get(tensor.untyped_storage()._cdata)

    def used(self, tensor: torch.Tensor, stream: int) -> None:
        """A copy in ``stream`` uses the memory: it is not handed out again before that has ended."""
        used_by = self._used_by.get(tensor.untyped_storage()._cdata)
        if used_by is not None:
            used_by.add(stream)

    def sent(self, tensor: torch.Tensor, mark: EventSnapshot) -> None:
        """A copy to the card reads ``tensor`` until ``mark`` has passed: who observes is told if it is overwritten before."""
        low, high = byte_range(tensor)
        if self._machine.logs and high - low <= _MOST_WATCHED_BYTES:
            storage = tensor.untyped_storage()
            self._sent.append(_Sent(storage._cdata, mark, low, high, _digest(storage, low, high)))

    def look(self) -> None:
        """Report what was overwritten since it was sent, by NumPy or through an address: no operation says so."""
        for one in list(self._sent):
            storage = self._watchers[one.key]()
            if storage is not None and one.digest != _digest(storage, one.low, one.high):
                self._sent.remove(one)
                accesses, what = self._histories[one.key], "a write that no operation made"
                self._machine.host_access(accesses, True, what, Extent(one.low, one.high))

    def arrived(self) -> None:
        """Let go of copies that the host has seen end: their memory may be written to."""
        clock = self._machine.host_vector_clock
        self._sent = [one for one in self._sent if not one.mark.is_before(clock)]

    def rewritten(self, tensor: torch.Tensor) -> None:
        """The host's own operation writes to it, which is reported as that."""
        key, (low, high) = tensor.untyped_storage()._cdata, byte_range(tensor)
        self._sent = [one for one in self._sent if one.key != key or high <= one.low or one.high <= low]

    def filled(self, tensor: torch.Tensor) -> None:
        """``pin_memory()`` copies: the host's time for it."""
        self._machine.host_works(staging_us(tensor.nbytes))

    def empty_cache(self) -> None:
        """Give the free blocks back to the system."""
        self._free.clear()

    def _take(self, size: int) -> None:
        for position, (free, marks) in enumerate(self._free):
            if free == size and all(self._machine.has_passed(mark) for mark in marks):
                del self._free[position]
                return
        self._machine.host_works(assumed.HOST_ALLOC_US + size / assumed.HOST_ALLOC_BYTES_PER_S * 1e6)

    def _freed(self, key: int, size: int) -> None:
        self._histories.pop(key, None)
        self._watchers.pop(key, None)
        self._sent = [one for one in self._sent if one.key != key]
        marks = [self._machine.mark_of(number) for number in sorted(self._used_by.pop(key, ()))]
        self._free.append((size, marks))


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of the bytes of its storage that ``tensor`` spans."""
    if tensor.is_nested:
        return 0, tensor.untyped_storage().nbytes()
    if tensor.numel() == 0:
        return 0, 0
    size = tensor.element_size()
    low = tensor.storage_offset() * size
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
    return low, low + (last + 1) * size


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether no two elements share bytes and none are left out, in whatever order they lie."""
    if tensor.is_contiguous():
        return True
    due = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape)):
        if extent > 1 and stride != due:
            return False
        due *= extent
    return True


def extent(tensor: torch.Tensor) -> Extent:
    """The bytes of its storage that ``tensor`` touches."""
    if tensor.is_nested:
        return Extent(*byte_range(tensor))
    if tensor.is_contiguous():
        low = tensor.storage_offset() * tensor.element_size()
        return Extent(low, low + tensor.nbytes)
    return Extent(*byte_range(tensor), cells_of(tensor.shape, tensor.stride(), tensor.element_size()))


def use(accesses: AccessHistory, tensor: torch.Tensor) -> tuple[AccessHistory, Extent]:
    """What the machine is told about one use of ``tensor``: its storage's access history and its bytes."""
    return accesses, extent(tensor)
