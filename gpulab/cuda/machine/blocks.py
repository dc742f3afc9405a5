"""Blocks and segments of device memory, and the pools that free blocks wait in."""

from bisect import bisect_left, insort

from gpulab.cuda.machine.order import AccessHistory

MIN_BLOCK = 512
SMALL_SIZE = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_LARGE_ALLOC = 10 << 20
ROUND_LARGE = 2 << 20


class Block:
    """A run of device bytes inside a segment.

    ``allocated``: it holds a storage. ``waiting``: for so many streams it is kept after that. ``is_free``: neither.
    """

    __slots__ = (
        "address", "size", "requested", "stream", "segment", "previous", "next",
        "allocated", "waiting", "is_free", "stream_uses", "accesses", "small",
    )  # fmt: skip

    def __init__(self, address: int, size: int, stream: int, segment: "Segment", small: bool):
        self.address, self.size, self.stream = address, size, stream
        self.segment, self.small = segment, small
        self.previous: Block | None = None
        self.next: Block | None = None
        self.requested = 0
        self.allocated, self.waiting, self.is_free = False, 0, True
        self.stream_uses: frozenset[int] = frozenset()
        self.accesses = AccessHistory(address)

    @property
    def is_split(self) -> bool:
        return self.previous is not None or self.next is not None

    def split(self, size: int) -> "Block":
        """Keep the first ``size`` bytes; returns the block of those that remain."""
        rest = Block(self.address + size, self.size - size, self.stream, self.segment, self.small)
        if self.accesses.writes or self.accesses.reads:
            rest.accesses = self.accesses.part(rest.address, rest.size)
            self.accesses = self.accesses.part(self.address, size)
        rest.previous, rest.next = self, self.next
        if self.next is not None:
            self.next.previous = rest
        self.next, self.size = rest, size
        return rest

    def absorb_next(self) -> None:
        """Take over the block behind, which is free and in no pool."""
        gone = self.next
        self.size += gone.size
        if gone.accesses.writes or gone.accesses.reads:
            self.accesses.join(gone.accesses)
        self.next = gone.next
        if self.next is not None:
            self.next.previous = self


class Segment:
    """Bytes that one cudaMalloc returned. ``pool``: where its free blocks wait, in the ``pools`` of their owner."""

    __slots__ = ("address", "size", "stream", "small", "pools", "pool", "first")

    def __init__(self, address: int, size: int, stream: int, small: bool, pools: "Pools"):
        self.address, self.size, self.stream, self.small = address, size, stream, small
        self.pools, self.pool = pools, pools.of(small)
        self.first = Block(address, size, stream, self, small)

    def blocks(self):
        """Its blocks, by address."""
        block = self.first
        while block is not None:
            yield block
            block = block.next


class Pool:
    """Free blocks of one kind; the smallest that fits comes first, then the lowest address."""

    def __init__(self) -> None:
        self._by_stream: dict[int, list[tuple[int, int, Block]]] = {}

    def add(self, block: Block) -> None:
        insort(self._by_stream.setdefault(block.stream, []), (block.size, block.address, block))

    def remove(self, block: Block) -> None:
        entries = self._by_stream[block.stream]
        del entries[bisect_left(entries, (block.size, block.address))]

    def best_fit(self, size: int, stream: int) -> Block | None:
        """Take out the smallest block of ``stream`` that holds ``size`` bytes."""
        entries = self._by_stream.get(stream)
        if not entries or entries[-1][0] < size:
            return None
        return entries.pop(bisect_left(entries, (size,)))[2]

    def whole_segments(self) -> list[Block]:
        """The free blocks that are all of their segment."""
        return [b for entries in self._by_stream.values() for *_, b in entries if not b.is_split]


class Pools:
    """The free blocks of one owner, small and large: of the process, or of the CUDA graphs that share them.

    ``id``: as PyTorch numbers memory pools; (0, 0) is the process's. ``graphs``: how many may still use their memory.
    """

    def __init__(self, id: tuple[int, int] = (0, 0)) -> None:
        self.id, self.graphs = id, 0
        self.small, self.large = Pool(), Pool()

    def of(self, small: bool) -> Pool:
        return self.small if small else self.large


def round_size(size: int) -> int:
    """Bytes that an allocation of ``size`` bytes takes from its block."""
    return -(-size // MIN_BLOCK) * MIN_BLOCK or MIN_BLOCK


def segment_size(rounded: int) -> int:
    """Bytes that cudaMalloc is asked for when no cached block holds ``rounded``."""
    if rounded <= SMALL_SIZE:
        return SMALL_SEGMENT
    if rounded < MIN_LARGE_ALLOC:
        return LARGE_SEGMENT
    return -(-rounded // ROUND_LARGE) * ROUND_LARGE


def should_split(block: Block, size: int) -> bool:
    rest = block.size - size
    return rest >= MIN_BLOCK if block.small else rest > SMALL_SIZE
