"""Two programs that use one element, one of them to write, are found in any order."""

import pytest
import torch

from gpulab.kernels import tl, triton
from gpulab.kernels.tiles.interpret import interpret


@pytest.fixture(params=[False, True], ids=["first program first", "last program first"])
def races(request):
    """Races of one launch, programs in the order under test."""

    def of(kernel, grid: int, **arguments):
        constants = {name for name in arguments if name.isupper()}
        run = interpret(kernel.fn, arguments, constants, (grid, 1, 1), True, backwards=request.param)
        return run.counts.races()

    return of


@triton.jit
def last_value(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def running_sum(out_ptr):
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)


@triton.jit
def overlapping(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def shift_in_place(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i + 1))


@triton.jit
def atomic_sum(out_ptr):
    tl.atomic_add(out_ptr, 1.0)


@triton.jit
def atomic_and_plain(out_ptr):
    if tl.program_id(0) == 0:
        tl.store(out_ptr, 0.0)
    else:
        tl.atomic_add(out_ptr + tl.arange(0, 2), 1.0)


@triton.jit
def last_adds_up(x_ptr, partial_ptr, count_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.load(x_ptr + p))
    if tl.atomic_add(count_ptr, 1) == N - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N)), axis=0))


@triton.jit
def nobody_waits(x_ptr, partial_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.load(x_ptr + p))
    if p == 0:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N)), axis=0))


@triton.jit
def locked(lock_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def two_lanes(x_ptr, out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i // 2, tl.load(x_ptr + i))


@triton.jit
def all_read_and_the_last_writes(x_ptr, out_ptr):
    p = tl.program_id(0)
    x = tl.load(x_ptr)
    tl.store(out_ptr + p, x)
    if p == tl.num_programs(0) - 1:
        tl.store(x_ptr, x + 1)


@triton.jit
def one_adds_and_one_reads(x_ptr, out_ptr):
    i = tl.arange(0, 2)
    if tl.program_id(0) == 0:
        tl.atomic_add(x_ptr + i, 1.0)
    else:
        tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def copied(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


def test_the_order_under_test_is_the_order():
    for backwards, last in ((False, 3.0), (True, 0.0)):
        arguments = {"x_ptr": torch.arange(4.0), "out_ptr": torch.zeros(1)}
        interpret(last_value.fn, arguments, set(), (4, 1, 1), False, backwards=backwards)
        assert arguments["out_ptr"].item() == last


def test_programs_that_write_the_same_element_race(races):
    (race,) = races(last_value, 4, x_ptr=torch.randn(4), out_ptr=torch.zeros(1))
    assert (race.kind, race.array, race.index) == ("write after write", "out_ptr", (0,))
    assert {race.first_thread, race.second_thread} in ({(0, 0, 0), (1, 0, 0)}, {(3, 0, 0), (2, 0, 0)})
    assert race.first_line == race.second_line and "tl.store" in race.first_line.text


def test_one_program_alone_does_not_race(races):
    assert races(last_value, 1, x_ptr=torch.randn(4), out_ptr=torch.zeros(1)) == ()


def test_a_sum_without_atomics_races(races):
    kinds = {race.kind for race in races(running_sum, 3, out_ptr=torch.zeros(1))}
    assert "read after write" in kinds


def test_a_tile_that_overlaps_its_neighbours_races(races):
    (race,) = races(overlapping, 3, x_ptr=torch.randn(22), out_ptr=torch.zeros(22), BLOCK=8)
    assert race.kind == "write after write" and race.index in ((7,), (14,))


def test_reading_what_a_neighbour_writes_in_place_races(races):
    assert races(shift_in_place, 3, x_ptr=torch.randn(25), BLOCK=8)


def test_an_array_given_twice_is_one_memory(races):
    x = torch.randn(24)
    found = races(copied, 3, x_ptr=x, out_ptr=x, BLOCK=8)
    assert found == ()
    room = torch.randn(25)
    (race, *_) = races(copied, 3, x_ptr=room[:24], out_ptr=room[1:], BLOCK=8)
    assert race.index in ((7,), (8,), (15,), (16,))


def test_a_reader_is_remembered_when_others_read_after_it(races):
    found = races(all_read_and_the_last_writes, 3, x_ptr=torch.ones(1), out_ptr=torch.zeros(3))
    assert {race.array for race in found} == {"x_ptr"}


def test_a_plain_read_races_with_another_programs_atomic(races):
    found = races(one_adds_and_one_reads, 2, x_ptr=torch.zeros(2), out_ptr=torch.zeros(2))
    assert {race.array for race in found} == {"x_ptr"}


def test_atomics_do_not_race_with_atomics(races):
    assert races(atomic_sum, 8, out_ptr=torch.zeros(1)) == ()


def test_a_plain_write_races_with_another_programs_atomic(races):
    assert races(atomic_and_plain, 2, out_ptr=torch.zeros(2))


def test_the_last_program_by_an_atomic_counter_may_read_all(races):
    x, out = torch.randn(8), torch.zeros(1)
    count = torch.zeros(1, dtype=torch.int32)
    assert races(last_adds_up, 8, x_ptr=x, partial_ptr=torch.zeros(8), count_ptr=count, out_ptr=out, N=8) == ()
    torch.testing.assert_close(out[0], x.sum())


def test_reading_partial_results_that_nobody_waited_for_races(races):
    found = races(nobody_waits, 8, x_ptr=torch.randn(8), partial_ptr=torch.zeros(8), out_ptr=torch.zeros(1), N=8)
    assert {race.array for race in found} == {"partial_ptr"}


def test_a_lock_puts_programs_in_order(races):
    out = torch.zeros(1)
    assert races(locked, 5, lock_ptr=torch.zeros(1, dtype=torch.int32), out_ptr=out) == ()
    assert out.item() == 5


def test_two_lanes_of_one_store_that_differ_race(races):
    (race,) = races(two_lanes, 1, x_ptr=torch.arange(8.0), out_ptr=torch.zeros(4))
    assert race.first_thread == race.second_thread == (0, 0, 0)


def test_two_lanes_that_store_the_same_value_do_not(races):
    assert races(two_lanes, 1, x_ptr=torch.ones(8), out_ptr=torch.zeros(4)) == ()
