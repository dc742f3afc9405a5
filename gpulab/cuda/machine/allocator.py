"""The caching allocator: rounds, splits, merges, reserves and runs out as PyTorch's does.

After ``c10/cuda/CUDACachingAllocator.cpp`` with its default settings: no expandable
segments, no maximal split size, no rounding to powers of two, no garbage collection.
"""

import sys
from collections.abc import Callable

from gpulab.cuda.machine.blocks import (
    SMALL_SIZE,
    Block,
    Pools,
    Segment,
    round_size,
    segment_size,
    should_split,
)
from gpulab.cuda.machine.former import FormerAccesses
from gpulab.cuda.machine.stats import Stats

_FIRST_ADDRESS = 0x7F00_0000_0000


class OutOfMemory(Exception):
    """No block of the size that was asked for; the text is PyTorch's."""


class Allocator:
    """Device memory of ``capacity`` bytes, handed out stream by stream.

    ``on_malloc``, ``on_sync``: called when memory comes from the driver, and before cached
    memory goes back to it (which waits for the device). ``has_ended(uses)``: whether the
    work behind recorded stream uses is known to have ended.
    """

    def __init__(
        self,
        capacity: int,
        on_malloc: Callable[[], None],
        on_sync: Callable[[], None],
        record_use: Callable[[int], object],
        has_ended: Callable[[object], bool],
    ) -> None:
        self.capacity, self.fraction = capacity, 1.0
        self.stats = Stats()
        self.segments: dict[int, Segment] = {}
        self._shared = self._pools = Pools()
        self._private: dict[tuple[int, int], Pools] = {}
        self._next_address = _FIRST_ADDRESS
        self._waiting: list[tuple[object, Block]] = []
        self._former: FormerAccesses | None = FormerAccesses()
        self._on_malloc, self._on_sync = on_malloc, on_sync
        self._record_use, self._has_ended = record_use, has_ended
        self.trace: Callable[[str, int, int, int], None] | None = None

    @property
    def reserved(self) -> int:
        return self.stats.all.reserved_bytes.current

    @property
    def allocated(self) -> int:
        return self.stats.all.allocated_bytes.current

    @property
    def allowed(self) -> int:
        """Bytes that this process may take from the card."""
        return int(self.fraction * self.capacity)

    def malloc(self, requested: int, stream: int) -> Block:
        """A block of at least ``requested`` bytes in ``stream``'s pool. Raises OutOfMemory."""
        sys.audit("gpulab.answers", "malloc")
        if self._waiting:
            self._collect_ended()
        size = round_size(requested)
        small = size <= SMALL_SIZE
        pool = self._pools.of(small)
        block = pool.best_fit(size, stream) or self._new_segment(requested, size, stream, small)
        was_split, split_bytes = block.is_split, block.size
        is_split = should_split(block, size)
        if is_split:
            pool.add(block.split(size))
        block.allocated, block.is_free, block.requested, size = True, False, requested, block.size
        rest = split_bytes - size
        self.stats.changed(small, 1, 1, size, requested, was_split, was_split * split_bytes, is_split, rest)
        if self.trace is not None:
            self.trace("alloc", block.address, size, block.stream)
        return block

    def free(self, block: Block) -> None:
        """The storage is gone; its bytes return to the pool, after its recorded streams."""
        block.allocated = False
        if self.trace is not None:
            self.trace("free_requested", block.address, block.size, block.stream)
        if block.stream_uses:
            self._wait_for_uses(block)
        else:
            self._release(block, -1)

    def _wait_for_uses(self, block: Block) -> None:
        self.stats.changed(block.small, -1, 0, block.size, 0, 0, 0, 0, 0)
        for stream in sorted(block.stream_uses - {block.stream}):
            block.waiting += 1
            self._waiting.append((self._record_use(stream), block))
        block.stream_uses = frozenset()
        if not block.waiting:
            self._release(block)

    def empty_cache(self) -> None:
        """Give every segment that holds no live block back to the driver."""
        self._on_sync()
        self._collect_ended()
        for pools in (self._shared, *self._private.values()):
            if not pools.graphs:
                self._give_back_all(pools)

    def _give_back_all(self, pools: Pools) -> None:
        for pool in (pools.small, pools.large):
            for block in pool.whole_segments():
                pool.remove(block)
                self._give_back(block.segment)

    def several_queues(self) -> None:
        """There is more than one queue from now on: who used memory before may race with who uses it next."""
        if self._former is not None:
            former, self._former = self._former, None
            former.hand_to(block for segment in self.segments.values() for block in segment.blocks())

    # ---- the private pools of CUDA graphs

    def keep_pool(self, id: tuple[int, int]) -> None:
        """One more graph has its memory in the pool ``id``: what is free there is no other's, nor the driver's."""
        self._private.setdefault(id, Pools(id)).graphs += 1

    def release_pool(self, id: tuple[int, int]) -> None:
        """A graph of the pool ``id`` is gone; after the last one ``empty_cache`` gives back what is free there."""
        self._private[id].graphs -= 1

    def take_from(self, id: tuple[int, int] | None) -> None:
        """``malloc`` takes from the pool ``id`` from now on; None: from the process's."""
        self._pools = self._shared if id is None else self._private[id]

    def _release(self, block: Block, used: int = 0) -> None:
        """``used``: -1 where its storage has gone at this moment and not before."""
        if self._former is None:
            block.accesses.leave(block.size)
        else:
            self._former.leave(block.accesses, block.size)
        size, requested, merged, block.is_free = block.size, block.requested, 0, True
        if self.trace is not None:
            self.trace("free_completed", block.address, size, block.stream)
        pool = block.segment.pool
        for free in (block.next, block.previous):
            if free is not None and free.is_free:
                pool.remove(free)
                merged += 1
                block = free if free is block.previous else block
                block.absorb_next()
        pool.add(block)
        rest, is_split = block.size - size, block.is_split
        self.stats.changed(block.small, used, -1, size, requested, merged, rest, is_split, is_split * block.size)

    def _collect_ended(self) -> None:
        still = []
        for use, block in self._waiting:
            if not self._has_ended(use):
                still.append((use, block))
                continue
            block.waiting -= 1
            if not block.waiting:
                self._release(block)
        self._waiting = still

    def _new_segment(self, requested: int, size: int, stream: int, small: bool) -> Block:
        wanted = segment_size(size)
        if not self._fits(wanted):
            self.stats.counts["num_alloc_retries"] += 1
            self.empty_cache()
            if not self._fits(wanted):
                self.stats.counts["num_ooms"] += 1
                self._note("oom", 0, wanted, stream)
                raise OutOfMemory(self._out_of_memory_text(wanted))
        self._on_malloc()
        segment = Segment(self._next_address, wanted, stream, small, self._pools)
        self._next_address += wanted
        self.segments[segment.address] = segment
        self._count_segment(segment, +1)
        self.stats.counts["num_device_alloc"] += 1
        self._note("segment_alloc", segment.address, wanted, stream)
        return segment.first

    def _give_back(self, segment: Segment) -> None:
        del self.segments[segment.address]
        self._count_segment(segment, -1)
        self.stats.counts["num_device_free"] += 1
        self._note("segment_free", segment.address, segment.size, segment.stream)

    def _count_segment(self, segment: Segment, sign: int) -> None:
        self.stats.add("segment", segment.small, sign)
        self.stats.add("reserved_bytes", segment.small, sign * segment.size)

    def _fits(self, wanted: int) -> bool:
        return self.reserved + wanted <= self.allowed

    def _note(self, action: str, address: int, size: int, stream: int) -> None:
        if self.trace is not None:
            self.trace(action, address, size, stream)

    def _out_of_memory_text(self, wanted: int) -> str:
        limit = f" {format_size(self.allowed)} allowed;" if self.fraction < 1.0 else ""
        return (
            f"CUDA out of memory. Tried to allocate {format_size(wanted)}. GPU 0 has a total capacity of "
            f"{format_size(self.capacity)} of which {format_size(self.capacity - self.reserved)} is free. "
            f"Including non-PyTorch memory, this process has {format_size(self.reserved)} memory in use."
            f"{limit} Of the allocated memory {format_size(self.allocated)} is allocated by PyTorch, and "
            f"{format_size(self.reserved - self.allocated)} is reserved by PyTorch but unallocated. "
            "If reserved but unallocated memory is large try setting "
            "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for "
            "Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )


def format_size(size: int) -> str:
    """Bytes as PyTorch's allocator writes them."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"
