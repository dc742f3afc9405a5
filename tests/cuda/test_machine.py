"""The machine alone, without PyTorch: allocator invariants, happens-before, sharing of the card."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.cards.cards import CARDS, card_named
from gpulab.cuda.machine.allocator import Allocator, OutOfMemory, format_size
from gpulab.cuda.machine.blocks import MIN_BLOCK
from gpulab.cuda.machine.machine import Machine
from gpulab.cuda.machine.multiprocessors import Multiprocessors
from gpulab.cuda.machine.order import Access, AccessHistory

MIB = 1 << 20


def allocator(capacity=256 * MIB):
    return Allocator(capacity, lambda: None, lambda: None, lambda stream: stream, lambda use: True)


actions = st.lists(
    st.tuples(st.sampled_from(["malloc", "free", "empty_cache"]), st.integers(1, 40 * MIB), st.integers(0, 2)),
    max_size=60,
)


def test_what_is_free_in_a_graphs_pool_is_no_others_and_stays_reserved():
    memory = allocator()
    memory.keep_pool((1, 0))
    memory.take_from((1, 0))
    block = memory.malloc(2 * MIB, 1)
    memory.take_from(None)
    memory.free(block)
    assert memory.malloc(2 * MIB, 1).segment is not block.segment
    memory.empty_cache()
    assert block.segment.address in memory.segments


def test_a_pool_gives_its_memory_back_after_its_last_graph():
    memory = allocator()
    for _ in range(2):
        memory.keep_pool((1, 0))
    memory.take_from((1, 0))
    memory.free(memory.malloc(2 * MIB, 1))
    memory.take_from(None)
    memory.release_pool((1, 0))
    memory.empty_cache()
    assert memory.reserved == 20 * MIB
    memory.release_pool((1, 0))
    memory.empty_cache()
    assert memory.reserved == 0


@settings(max_examples=60, deadline=None)
@given(actions)
def test_the_books_balance_whatever_is_asked(actions):
    memory, live = allocator(), []
    for action, number, stream in actions:
        if action == "malloc":
            try:
                live.append(memory.malloc(number, stream))
            except OutOfMemory:
                pass
        elif action == "free" and live:
            memory.free(live.pop(number % len(live)))
        elif action == "empty_cache":
            memory.empty_cache()
        check_books(memory, live)
    for block in live:
        memory.free(block)
    memory.empty_cache()
    assert memory.reserved == memory.allocated == 0 and not memory.segments


def check_books(memory, live):
    blocks = [block for segment in memory.segments.values() for block in segment.blocks()]
    assert sum(b.size for b in blocks) == memory.reserved <= memory.capacity
    assert sum(b.size for b in blocks if b.allocated) == memory.allocated
    assert {id(b) for b in blocks if b.allocated} == {id(b) for b in live}
    assert all(b.size % MIN_BLOCK == 0 and b.requested <= b.size for b in live)
    for block in blocks:
        after = block.next
        assert after is None or block.address + block.size == after.address
        assert after is None or not (block.is_free and after.is_free), "free neighbours merge"
    split = [b.size for b in blocks if b.is_free and b.is_split]
    stats = memory.stats.all
    assert stats.inactive_split.current == len(split) and stats.inactive_split_bytes.current == sum(split)


@pytest.mark.parametrize(
    "size, text", [(512, "512 bytes"), (1 << 10, "1.00 KiB"), (3 << 19, "1.50 MiB"), (80 << 30, "80.00 GiB")]
)
def test_sizes_read_as_pytorch_writes_them(size, text):
    assert format_size(size) == text


def use(queue, epoch, writes, low=0, high=8):
    return Access(queue, epoch, "op", None, low, high, writes)


def test_two_reads_never_clash():
    accesses = AccessHistory()
    assert accesses.read(use(0, 1, False), {}) is None and accesses.read(use(1, 1, False), {}) is None


def test_a_write_clashes_with_an_unseen_read_and_not_with_a_seen_one():
    for vector_clock, clashes in (({}, True), ({0: 1}, False)):
        accesses = AccessHistory()
        accesses.read(use(0, 1, False), {})
        assert (accesses.write(use(1, 1, True), vector_clock) is not None) == clashes


def test_a_later_epoch_than_the_one_seen_clashes():
    accesses = AccessHistory()
    accesses.write(use(0, 2, True), {})
    assert accesses.read(use(1, 1, False), {0: 1}).epoch == 2


def test_bytes_that_do_not_overlap_do_not_clash():
    accesses = AccessHistory()
    accesses.write(use(0, 1, True, 0, 8), {})
    assert accesses.write(use(1, 1, True, 8, 16), {}) is None
    assert accesses.write(use(2, 1, True, 4, 12), {}) is not None


def test_many_small_writes_are_still_all_remembered():
    accesses = AccessHistory()
    for i in range(5000):
        accesses.write(use(0, i + 1, True, 8 * i, 8 * i + 8), {})
    assert len(accesses.writes) < 1000
    assert accesses.read(use(1, 1, False, 8 * 3, 8 * 4), {}) is not None


kernels = st.lists(st.tuples(st.integers(0, 3), st.floats(1, 50), st.integers(1, 600_000)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(kernels)
def test_the_card_is_never_shared_out_more_than_once(kernels):
    card, ready, placed = CARDS["H100"], {}, []
    sharing = Multiprocessors(card)
    for number, duration, threads in kernels:
        earliest = ready.get(number, 0.0)
        begin = sharing.start(number, earliest, duration, threads, 0.0)
        assert begin >= earliest
        ready[number] = begin + duration
        share = min(1.0, max(1 / card.multiprocessors, threads / (card.multiprocessors * 2048)))
        placed.append((begin, begin + duration, share))
    for begin, _, _ in placed:
        assert sum(share for b, e, share in placed if b <= begin < e) <= 1 + 1e-6


def test_time_never_runs_backwards():
    machine, clock = Machine(CARDS["T4"]), 0.0
    for i in range(20):
        machine.kernel("k", 5.0, 1, 0, [], [], 0, 0)
        machine.copy("HtoD", 1000 * i, pinned=bool(i % 2), blocking=False)
        if i % 3 == 0:
            machine.wait_device()
            assert machine.host_us >= machine.current.ready_us
        assert machine.host_us > clock
        clock = machine.host_us


def test_a_card_is_found_however_it_is_written():
    assert card_named("rtx 4090") is card_named("RTX4090") is card_named("rtx-4090")


def reference(memory, seen):
    """(current, peak) by counting the blocks that are there, after each action."""
    blocks = [block for segment in memory.segments.values() for block in segment.blocks()]
    live = [block for block in blocks if block.allocated]
    left = [block for block in blocks if block.is_free and block.is_split]
    now = {
        "allocation": len(live),
        "allocated_bytes": sum(block.size for block in live),
        "requested_bytes": sum(block.requested for block in live),
        "active_bytes": sum(block.size for block in live),
        "inactive_split": len(left),
        "inactive_split_bytes": sum(block.size for block in left),
    }
    return {name: (number, max(number, seen.get(name, (0, 0))[1])) for name, number in now.items()}


@settings(max_examples=60, deadline=None)
@given(actions, st.integers(1, 8))
def test_counters_that_are_added_up_late_are_those_of_the_blocks_after_each_action(actions, how_often):
    memory, live, seen = allocator(), [], {}
    for number, (action, size, stream) in enumerate(actions):
        if action == "malloc" and memory.allocated + size < memory.capacity // 2:
            live.append(memory.malloc(size, stream))
        elif action == "free" and live:
            memory.free(live.pop(size % len(live)))
        seen = reference(memory, seen)
        if number % how_often == 0:
            memory.stats.pools()
    counters = memory.stats.as_nested_dict()
    assert {name: (counters[name]["all"]["current"], counters[name]["all"]["peak"]) for name in seen} == seen
    for name in seen:
        by_pool = counters[name]
        for key in ("current", "allocated", "freed"):
            assert by_pool["all"][key] == by_pool["small_pool"][key] + by_pool["large_pool"][key]
        assert by_pool["all"]["allocated"] - by_pool["all"]["freed"] == by_pool["all"]["current"]


def test_a_block_that_the_garbage_collector_frees_while_counters_are_added_up_is_counted(monkeypatch):
    memory = allocator()
    block, original = memory.malloc(MIN_BLOCK, 0), np.frombuffer

    def freed_meanwhile(*args, **kwargs):
        changes = original(*args, **kwargs)
        monkeypatch.undo()
        memory.free(block)
        return changes

    monkeypatch.setattr(np, "frombuffer", freed_meanwhile)
    assert memory.allocated == MIN_BLOCK
    assert memory.allocated == 0
