"""Which atomics put programs in order, and which do not: the same findings in either order of running."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from tests.kernels.tiles.test_races import last_adds_up, races  # noqa: F401


@triton.jit
def reset_beside_atomics(x_ptr, out_ptr):
    p = tl.program_id(0)
    if p == 0:
        tl.store(out_ptr, 0.0)
    tl.atomic_add(out_ptr, tl.load(x_ptr + p))


@triton.jit
def reset_and_keep_what_was_there(x_ptr, out_ptr, before_ptr):
    p = tl.program_id(0)
    if p == 0:
        tl.store(out_ptr, 0.0)
    tl.store(before_ptr + p, tl.atomic_add(out_ptr, tl.load(x_ptr + p)))


@triton.jit
def counts_in_between(out_ptr, count_ptr):
    tl.store(out_ptr, tl.program_id(0).to(tl.float32))
    tl.atomic_add(count_ptr, 1)
    tl.store(out_ptr, tl.program_id(0).to(tl.float32))


@triton.jit
def takes_a_slot(out_ptr, slots_ptr, count_ptr):
    slot = tl.atomic_add(count_ptr, 1)
    tl.store(slots_ptr + slot, 1.0)
    tl.store(out_ptr, 1.0 * slot)


@triton.jit
def counts_before_it_stores(x_ptr, partial_ptr, count_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    last = tl.atomic_add(count_ptr, 1) == N - 1
    tl.store(partial_ptr + p, tl.load(x_ptr + p))
    if last:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N)), axis=0))


@triton.jit
def counts_relaxed(x_ptr, partial_ptr, count_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.load(x_ptr + p))
    if tl.atomic_add(count_ptr, 1, sem="relaxed") == N - 1:
        tl.store(out_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, N)), axis=0))


@triton.jit
def last_by_a_mask(x_ptr, partial_ptr, count_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.load(x_ptr + p))
    last = tl.atomic_add(count_ptr, 1) == N - 1
    i = tl.arange(0, N)
    total = tl.sum(tl.load(partial_ptr + i, mask=(i < N) & last, other=0.0), axis=0)
    tl.store(out_ptr, total, mask=last)


@triton.jit
def last_cleans_up(x_ptr, scale_ptr, count_ptr, total_ptr, out_ptr, N: tl.constexpr):
    p = tl.program_id(0)
    tl.atomic_add(total_ptr, tl.load(x_ptr + p) * tl.load(scale_ptr))
    if tl.atomic_add(count_ptr, 1) == N - 1:
        tl.store(out_ptr, tl.load(total_ptr))
        tl.store(scale_ptr, 0.0)
        tl.store(total_ptr, 0.0)
        tl.store(count_ptr, 0)


@triton.jit
def unlocks_without_an_atomic(lock_ptr, out_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)
    tl.store(lock_ptr, 0)


@triton.jit
def locked_after_a_free_store(lock_ptr, out_ptr, free_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(free_ptr, 1.0 * tl.program_id(0))


@triton.jit
def hidden_by_a_lock(lock_ptr, out_ptr, kept_ptr):
    p = tl.program_id(0)
    if p == 0:
        tl.store(out_ptr, 1.0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.device_print("inside", p)
    tl.atomic_xchg(lock_ptr, 0)
    if p == 1:
        tl.store(kept_ptr, tl.load(out_ptr))


@triton.jit
def waits_for_the_one_before(flag_ptr, out_ptr):
    p = tl.program_id(0)
    while tl.atomic_add(flag_ptr, 0) != p:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + p)
    tl.atomic_add(flag_ptr, 1)


def arrays(found) -> set[str]:
    return {race.array for race in found}


def zeros(*names: str, n: int = 8) -> dict:
    return {
        name: torch.zeros(n, dtype=torch.int32 if name in ("count_ptr", "lock_ptr") else torch.float32)
        for name in names
    }


def test_a_reset_beside_atomics_races(races):  # noqa: F811
    assert arrays(races(reset_beside_atomics, 4, x_ptr=torch.ones(4), **zeros("out_ptr"))) == {"out_ptr"}


def test_an_atomics_value_that_is_only_stored_orders_nothing(races):  # noqa: F811
    found = races(reset_and_keep_what_was_there, 4, x_ptr=torch.ones(4), **zeros("out_ptr", "before_ptr"))
    assert arrays(found) == {"out_ptr"}


@pytest.mark.parametrize("kernel", [counts_in_between, takes_a_slot], ids=lambda k: k.__name__)
def test_an_atomic_on_something_else_hides_no_race(races, kernel):  # noqa: F811
    names = [name for name in kernel.arg_names]
    assert arrays(races(kernel, 4, **zeros(*names))) == {"out_ptr"}


@pytest.mark.parametrize("kernel", [counts_before_it_stores, counts_relaxed], ids=lambda k: k.__name__)
def test_what_comes_after_the_release_or_without_one_is_not_ordered(races, kernel):  # noqa: F811
    found = races(kernel, 8, x_ptr=torch.randn(8), N=8, **zeros("partial_ptr", "count_ptr", "out_ptr"))
    assert arrays(found) == {"partial_ptr"}


def test_a_mask_made_of_an_atomics_value_orders_what_it_lets_through(races):  # noqa: F811
    x, room = torch.randn(8), zeros("partial_ptr", "count_ptr", "out_ptr")
    assert races(last_by_a_mask, 8, x_ptr=x, N=8, **room) == ()
    torch.testing.assert_close(room["out_ptr"][0], x.sum())


def test_the_last_program_may_reset_what_all_read_added_to_and_counted(races):  # noqa: F811
    x, room = torch.randn(8), zeros("count_ptr", "total_ptr", "out_ptr")
    assert races(last_cleans_up, 8, x_ptr=x, scale_ptr=torch.full((1,), 2.0), N=8, **room) == ()
    torch.testing.assert_close(room["out_ptr"][0], 2 * x.sum())


def test_a_lock_that_is_opened_by_a_plain_store_races(races):  # noqa: F811
    assert "lock_ptr" in arrays(races(unlocks_without_an_atomic, 4, **zeros("lock_ptr", "out_ptr")))


def test_a_lock_orders_nothing_that_comes_after_it_was_opened(races):  # noqa: F811
    assert arrays(races(locked_after_a_free_store, 4, **zeros("lock_ptr", "out_ptr", "free_ptr"))) == {"free_ptr"}


def test_a_second_launch_with_the_counter_left_full_finds_nobody_last(races):  # noqa: F811
    room = zeros("partial_ptr", "out_ptr")
    count = torch.full((1,), 8, dtype=torch.int32)
    assert races(last_adds_up, 8, x_ptr=torch.randn(8), count_ptr=count, N=8, **room) == ()
    assert room["out_ptr"][0] == 0


def test_a_launch_is_gone_through_backwards_too_when_atomics_order_it(capsys):
    lock, out, kept = torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.full((1,), 7.0)
    with observe() as seen:
        hidden_by_a_lock[(3,)](lock, out, kept)
    (launch,) = seen.launches
    assert arrays(launch.races) == {"out_ptr"}
    assert (out.item(), kept.item(), lock.item()) == (1.0, 1.0, 0) and launch.total("stores") == 2 + 2 * 3
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_programs_that_wait_for_the_one_before_do_not_race():
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    with observe() as seen:
        waits_for_the_one_before[(4,)](flag, out)
    assert seen.launches[0].races == () and out.item() == 6
