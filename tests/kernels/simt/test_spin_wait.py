"""Threads that wait for each other, and what fences and atomics order."""

import pytest
import torch

from gpulab.kernels import EndlessLoop, cuda, float32, int32
from tests.kernels.simt.launching import floats, launched, sound, zeros

ORDERS = (None, 0, 3)


def ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


@cuda.jit
def sum_by_the_last_block(total, partial, count, x):
    s = cuda.shared.array(64, float32)
    last = cuda.shared.array(1, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    n = 32
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        partial[cuda.blockIdx.x] = s[0]
        cuda.threadfence()
        last[0] = cuda.atomic.inc(count, 0, cuda.gridDim.x) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t < cuda.gridDim.x:
        s[t] = partial[t]
        cuda.syncwarp(cuda.activemask())
        if t == 0:
            total[0] = 0
            for k in range(cuda.gridDim.x):
                total[0] += s[k]
            count[0] = 0


@cuda.jit
def sum_without_the_fence(total, partial, count, x):
    last = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]
        if x[0] > 1e30:
            cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
        if last[0]:
            total[0] = partial[0] + partial[1]


@pytest.mark.parametrize("order", ORDERS)
def test_the_programming_guides_sum_by_the_last_block_is_sound(order):
    """CUDA C++ Programming Guide, Memory Fence Functions."""
    total, count = zeros(1), ints(1)
    launch = launched(sum_by_the_last_block, 8, 64, total, zeros(8), count, floats(512), order=order)
    assert sound(launch) and total.item() == sum(range(512)) and count.item() == 0


@pytest.mark.parametrize("order", ORDERS)
def test_without_the_fence_it_is_a_race(order):
    launch = launched(sum_without_the_fence, 4, 32, zeros(1), zeros(4), ints(1), floats(128), order=order)
    assert {race.array for race in launch.races} == {"partial"}


@cuda.jit
def reset_beside_atomics(out, x):
    if cuda.grid(1) == 0:
        out[0] = 0
        cuda.threadfence()
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


@pytest.mark.parametrize("order", ORDERS)
def test_a_reset_beside_atomics_is_a_race_with_a_fence_too(order):
    launch = launched(reset_beside_atomics, 4, 32, zeros(1), floats(128), order=order)
    assert {race.array for race in launch.races} == {"out"}


@cuda.jit
def counts_under_a_lock(lock, total, turns):
    if cuda.threadIdx.x % 32 == 0:
        for k in range(turns):
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            cuda.threadfence()
            total[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def counts_under_a_lock_without_fences(lock, total):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        total[0] += 1
        cuda.atomic.exch(lock, 0, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_a_lock_between_warps_and_blocks_ends_and_is_sound(order):
    lock, total = ints(1), zeros(1)
    launch = launched(counts_under_a_lock, 5, 64, lock, total, 3, order=order)
    assert sound(launch) and total.item() == 30 and lock.item() == 0


def test_a_lock_counts_each_pass_once_though_the_launch_began_again():
    launch = launched(counts_under_a_lock, 5, 32, ints(1), zeros(1), 1)
    assert launch.array("total").written_bytes == 5 * 4


def test_a_lock_without_fences_ends_and_is_a_race():
    total = zeros(1)
    launch = launched(counts_under_a_lock_without_fences, 4, 32, ints(1), total)
    assert total.item() == 4 and {race.array for race in launch.races} == {"total"}


@cuda.jit
def hands_over(flag, data, out):
    if cuda.blockIdx.x == 0:
        if cuda.threadIdx.x == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        cuda.syncthreads()
        out[cuda.threadIdx.x] = data[cuda.threadIdx.x ^ 1]
    else:
        data[cuda.threadIdx.x] = cuda.threadIdx.x
        cuda.threadfence()
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cuda.atomic.exch(flag, 0, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_a_block_may_wait_for_a_later_one_and_is_told_what_that_needs(order):
    out = zeros(64)
    launch = launched(hands_over, 2, 64, ints(1), zeros(64), out, order=order)
    assert sound(launch) and out.tolist() == [t ^ 1 for t in range(64)]
    assert any("a block waits for a later one" in text for text in launch.warnings)


@cuda.jit
def a_block_fence_is_not_enough(flag, data, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            data[0] = 1
            cuda.threadfence_block()
            cuda.atomic.exch(flag, 0, 1)
        else:
            if cuda.atomic.add(flag, 0, 0) == 1:
                out[0] = data[0]


def test_a_fence_of_the_block_orders_nothing_between_blocks():
    launch = launched(a_block_fence_is_not_enough, 2, 32, ints(1), zeros(1), zeros(1), order=0)
    assert {race.array for race in launch.races} == {"data"}


@cuda.jit
def nobody_opens(flag):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass


@cuda.jit
def waits_within_a_warp(lock):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.atomic.exch(lock, 0, 0)


@pytest.mark.parametrize("kernel", [nobody_opens, waits_within_a_warp])
def test_threads_that_wait_for_ever_are_told_so_soon(kernel):
    with pytest.raises(EndlessLoop, match="Every thread that has not ended waits"):
        kernel[2, 32](ints(1))
