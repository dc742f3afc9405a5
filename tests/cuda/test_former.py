"""What a second queue is told of those who used memory before there was one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.cards.cards import CARDS
from gpulab.cuda.machine import former
from gpulab.cuda.machine.machine import Machine
from gpulab.cuda.machine.order import Extent

KIB = 1 << 10


class Races:
    """An observer that keeps the steps of two accesses that race."""

    def __init__(self):
        self.found = []

    def kernel(self, *facts):
        pass

    copy = wait = kernel

    def race(self, first, second):
        self.found.append((first.line, second.line))


def two_machines():
    """One keeps every access with its block from the start; the other begins to when a second queue is there."""
    at_once, later = Machine(CARDS["T4"]), Machine(CARDS["T4"])
    at_once.allocator.several_queues()
    for machine in (at_once, later):
        machine.logs.append(Races())
    return at_once, later


def use(machine, step, block, writes, whole=True):
    if block is None:
        return
    machine.find_line = lambda: step
    used = [(block.accesses, None if whole else Extent(0, block.size // 2))]
    if whole:
        reads_writes = ((), used) if writes else (used, ())
        machine.kernel("kernel", 1.0, 1, 0, *reads_writes, 1, 1)
    else:
        kind = "HtoD" if writes else "DtoH"
        machine.copy(kind, 8, True, False, **{"writes" if writes else "reads": used})


def run(machine, steps):
    """Each step takes one of eight places: memory for it, a use of it, or its end."""
    held = [None] * 8
    for number, (action, place, size) in enumerate(steps):
        if action == "malloc" and held[place] is None:
            held[place] = machine.malloc(size * KIB)
        elif action == "free" and held[place] is not None:
            machine.allocator.free(held[place])
            held[place] = None
        elif action in ("read", "write", "copy in", "copy out"):
            use(machine, number, held[place], action in ("write", "copy in"), not action.startswith("copy"))
    return held


def used_by_a_second_queue(machine, held):
    """What it finds: in the storages that are there, and in all memory that is free, handed out anew."""
    held += [machine.malloc(size * KIB) for size in (1, 1, 3, 600, 900, 100)]
    machine.current = machine.queue_from_pool()
    for place, block in enumerate(held):
        use(machine, f"second {place}", block, writes=True)
    return machine.logs[0].found


ACTIONS = ["malloc", "malloc", "free", "read", "write", "copy in", "copy out"]
programs = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7), st.sampled_from([1, 2, 5, 40, 300, 700])), max_size=80
)


@pytest.mark.parametrize("many", [3, 1024])
@settings(max_examples=150, deadline=None)
@given(steps=programs)
def test_a_second_queue_finds_the_races_that_it_would_have_found_with_every_access_kept_from_the_start(many, steps):
    former._MANY, usual = many, former._MANY
    try:
        at_once, later = (used_by_a_second_queue(machine, run(machine, steps)) for machine in two_machines())
    finally:
        former._MANY = usual
    assert [second for _, second in later] == [second for _, second in at_once]
    # Where several race with it, one is named: of those that this byte's last user covers, none.
    assert all(found >= kept for (found, _), (kept, _) in zip(later, at_once))


def test_memory_that_was_used_again_in_part_has_in_each_part_its_last_user():
    _, machine = two_machines()
    steps = [("malloc", 0, 2), ("write", 0, 0), ("free", 0, 0), ("malloc", 0, 1), ("malloc", 1, 1), ("write", 1, 0)]
    held = run(machine, [*steps, ("free", 0, 0), ("free", 1, 0)])
    found = used_by_a_second_queue(machine, [block for block in held if block is not None])
    assert found[:2] == [(1, "second 0"), (5, "second 1")]


def test_a_write_ends_what_a_second_queue_must_know_of_the_storage_before():
    _, machine = two_machines()
    for step in (0, 1):
        block = machine.malloc(KIB)
        use(machine, step, block, writes=True)
        machine.allocator.free(block)
    assert used_by_a_second_queue(machine, [])[0] == (1, "second 0")


def test_a_long_run_keeps_as_few_accesses_as_there_are_places_in_memory():
    kept = former.FormerAccesses()
    machine = Machine(CARDS["T4"])
    for number in range(5 * former._MANY):
        block = machine.malloc((1 + number % 7) * KIB)
        use(machine, number, block, writes=bool(number % 3))
        kept.leave(block.accesses, block.size)
        machine.allocator.free(block)
    assert len(kept._kept) + len(kept._left) <= former._MANY
