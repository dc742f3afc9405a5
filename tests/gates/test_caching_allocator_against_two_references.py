"""E10.3's solution against the virtual card's allocator and against laws of its own, over thousands of random traces."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autograder.authoring.text import read_text_notebook
from autograder.misconceptions.corpus import CORPUS, read_corpus
from autograder.notebooks.cells import solution_of
from gpulab.cuda.machine.allocator import Allocator, OutOfMemory

TRADING = Path(__file__).parents[2] / "exercises" / "trading" / "notebook.py"
KIB, MIB = 1 << 10, 1 << 20
SMALL = [1, 512, 513, 300 * KIB, 700 * KIB, MIB - 512, MIB]
LARGE = [MIB + 1, 3 * MIB, 5 * MIB + 37, 8 * MIB, 9 * MIB, 10 * MIB - 512]
SIZES = [*SMALL, *LARGE, 10 * MIB, 11 * MIB, 19 * MIB, 20 * MIB, 21 * MIB + 1, 26 * MIB]
CAPACITIES = [2 * MIB - 1, 22 * MIB, 45 * MIB, 64 * MIB + 5, 1 << 50]


def made_by(source):
    namespace = {}
    exec(source, namespace)
    return namespace["caching_allocator"]


caching_allocator = made_by(solution_of(read_text_notebook(TRADING), "caching_allocator"))
ATTEMPTS = {one.name: one for one in read_corpus(TRADING.with_name(CORPUS)) if one.function == "caching_allocator"}


def actions(trace):
    """Two bytes each: malloc of a size, free of the so-many-th block in use, empty_cache."""
    for kind, number in zip(trace[::2], trace[1::2]):
        if kind < 140:
            yield "malloc", max(1, SIZES[number % len(SIZES)] - kind % 3 * number)
        elif kind < 250:
            yield "free", number
        else:
            yield "empty_cache", 0


class Card:
    """The virtual card's allocator, asked as the exercise's is."""

    def __init__(self, capacity):
        self._card = Allocator(capacity, int, int, int, bool)
        self._blocks = {}

    allocated = property(lambda self: self._card.allocated)
    reserved = property(lambda self: self._card.reserved)

    def malloc(self, size):
        try:
            block = self._card.malloc(size, 0)
        except OutOfMemory as error:
            raise MemoryError from error
        self._blocks[block.address] = block
        return block.address

    def free(self, address):
        self._card.free(self._blocks.pop(address))

    def empty_cache(self):
        self._card.empty_cache()

    def segments(self):
        return [
            (s.address, s.size, [(b.address, b.size, b.allocated) for b in s.blocks()])
            for s in self._card.segments.values()
        ]


class Laws:
    """What holds of an allocator after every call, whichever block it takes and wherever it splits one."""

    def __init__(self, memory, capacity):
        self.memory, self.capacity, self.asked, self.now = memory, capacity, {}, []

    allocated = property(lambda self: self.memory.allocated)
    reserved = property(lambda self: self.memory.reserved)

    def segments(self):
        return self.now

    def look(self):
        """Fetch what the allocator says of itself, and hold it against the laws."""
        self.now = self.memory.segments()
        assert all(one[0] + one[1] <= other[0] for one, other in pairwise(self.now)), "segments overlap"
        for address, size, blocks in self.now:
            assert blocks[0][0] == address and blocks[-1][0] + blocks[-1][1] == address + size, (
                "blocks leave their segment"
            )
            assert all(one[0] + one[1] == other[0] for one, other in pairwise(blocks)), "bytes are lost or shared"
            assert all(one[2] or other[2] for one, other in pairwise(blocks)), "free neighbours"
        blocks = self.blocks()
        assert self.reserved == sum(size for _, size, _ in self.now) <= self.capacity
        assert self.allocated == sum(size for _, size, used in blocks if used)
        assert {address for address, _, used in blocks if used} == set(self.asked), (
            "other blocks are in use than were taken"
        )
        assert all(size % 512 == 0 and size >= self.asked.get(address, 1) for address, size, _ in blocks)

    def blocks(self):
        return [block for _, _, blocks in self.now for block in blocks]

    def held(self):
        return [segment[:2] for segment in self.now]

    def busy(self):
        """Segments with a block in use."""
        return [segment[:2] for segment in self.now if any(used for *_, used in segment[2])]

    def fits(self, need):
        """Where free blocks begin that may serve a request: a segment of 2 MiB is a small one, any other is a large one."""
        pool = [blocks for _, length, blocks in self.now if (length == 2 * MIB) == (need <= MIB)]
        return {address for blocks in pool for address, length, used in blocks if not used and length >= need}

    def malloc(self, size):
        """The address; None where memory has run out, and then nothing that was free can have served."""
        need = -(-size // 512) * 512
        fits, busy, held = self.fits(need), self.busy(), self.held()
        try:
            address = self.memory.malloc(size)
        except MemoryError:
            self.look()
            segment = 2 * MIB if need <= MIB else 20 * MIB if need < 10 * MIB else -(-need // (2 * MIB)) * 2 * MIB
            assert not fits, "memory runs out though a free block is large enough"
            assert self.held() == busy, "the cache is emptied, and nothing else"
            assert self.reserved + segment > self.capacity, "there is room for a segment"
            return None
        self.asked[address] = size
        self.look()
        new = {begin for begin, _ in self.held()} - {begin for begin, _ in held}
        assert address in (fits or new), (
            "neither from a free block that is large enough nor, where there is none, a new segment"
        )
        assert not fits or self.held() == held, "the driver is asked though a free block is large enough"
        return address

    def free(self, address):
        held, allocated = self.held(), self.allocated
        size = next(size for begin, size, _ in self.blocks() if begin == address)
        self.memory.free(address)
        del self.asked[address]
        self.look()
        assert self.held() == held and self.allocated == allocated - size, "free gives to the cache, and no other block"

    def empty_cache(self):
        busy, used = self.busy(), [block for block in self.blocks() if block[2]]
        self.memory.empty_cache()
        self.look()
        assert self.held() == busy and [block for block in self.blocks() if block[2]] == used


def play(memory, trace):
    """Each call's address and how the allocator stands after it."""
    order, told = [], []
    for what, number in actions(trace):
        address = None
        if what == "malloc":
            try:
                address = memory.malloc(number)
            except MemoryError:
                pass
            order += [address] if address is not None else []
        elif what == "free" and order:
            memory.free(order.pop(number % len(order)))
        elif what == "empty_cache":
            memory.empty_cache()
        told.append((what, address, memory.allocated, memory.reserved, memory.segments()))
    return told


traces = st.binary(min_size=40, max_size=100)


@settings(max_examples=4000, deadline=None)
@given(traces, st.sampled_from(CAPACITIES))
@example(bytes([0, 11, 0, 11, 0, 11, 0, 11, 200, 0, 200, 1, 0, 14]), 45 * MIB)
def test_the_solution_keeps_the_laws_and_goes_as_the_virtual_card(trace, capacity):
    assert play(Laws(caching_allocator(capacity), capacity), trace) == play(Card(capacity), trace)


LAWLESS = (
    "no_merging",
    "merges_across_segments",
    "gives_back_parts",
    "gives_back_blocks_in_use",
    "counts_what_was_asked_for",
    "does_not_empty_the_cache",
    "empties_only_if_it_helps",
    "large_requests_go_to_the_driver",
    "the_request_counts_and_not_the_segment",
)


@pytest.mark.parametrize("name", LAWLESS)
def test_the_laws_notice_a_wrong_allocator_by_themselves(name):
    wrong, chance = made_by(ATTEMPTS[name].source), Random(1)
    with pytest.raises(AssertionError):
        for _ in range(300):
            capacity = chance.choice(CAPACITIES)
            play(Laws(wrong(capacity), capacity), chance.randbytes(90))
