"""Tests that settle the claims of the chapter "The CUDA execution model", one per claim."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import gpulab
from gpulab.cards.cards import card_named
from gpulab.cards.multiprocessors import multiprocessor
from gpulab.kernels import LaunchError, cuda, float32
from gpulab.kernels.simt.occupancy import occupancy


def launched(kernel, grid, block, *arguments):
    with gpulab.observe() as seen:
        kernel[grid, block](*arguments)
    (launch,) = seen.launches
    return launch


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def branch(kind, out):
    i = cuda.grid(1)
    v = 1.0
    if kind[i] == 0:
        for _ in range(10):
            v = v + 1.0
    else:
        for _ in range(10):
            v = v + 2.0
    out[i] = v


def in_branches(launch):
    return sum(line.instructions for line in launch.lines if line.line.text.startswith(("for _", "v = v")))


def test_an_instruction_is_issued_for_32_threads_and_more_threads_are_resident_than_there_are_lanes():
    n = 1024
    launch = launched(add, n // 256, 256, torch.ones(n), torch.ones(n), torch.empty(n))
    (index,) = [line for line in launch.lines if "cuda.grid" in line.line.text]
    assert index.active_lanes == 32 * index.instructions
    card = card_named("A100")
    threads = card.multiprocessors * multiprocessor(card.capability).max_threads
    assert threads == 108 * 2048 and threads > 30 * 5000


def test_divergence_costs_within_a_warp_and_nothing_between_warps():
    n = 256
    alternating, aligned = torch.arange(n) % 2, torch.arange(n) // 32 % 2
    costs = {
        name: launched(branch, n // 64, 64, kind, torch.empty(n))
        for name, kind in {
            "one": torch.zeros(n, dtype=torch.int64),
            "alternating": alternating,
            "aligned": aligned,
        }.items()
    }
    assert in_branches(costs["alternating"]) == 2 * in_branches(costs["one"])
    assert in_branches(costs["aligned"]) == in_branches(costs["one"])
    assert costs["aligned"].total("divergent_branches") == 0


@cuda.jit
def neighbours(x, out):
    shared = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = shared[63 - t]


def test_a_block_shares_memory_and_has_at_most_1024_threads():
    x, out = torch.arange(128.0), torch.empty(128)
    launch = launched(neighbours, 2, 64, x, out)
    assert out.equal(torch.cat([x[:64].flip(0), x[64:].flip(0)])) and not launch.races and launch.shared_bytes == 256
    launched(add, 1, 1024, x, x, out)
    with pytest.raises(LaunchError, match="1024"):
        launched(add, 1, 1025, x, x, out)


def test_an_a10_has_72_multiprocessors_of_128_lanes():
    a10, datasheet = card_named("A10"), 31.2e12
    assert a10.multiprocessors * 128 == 9216
    assert datasheet / (2 * a10.clock_hz) == pytest.approx(9216, rel=0.005)


def test_a_product_of_4096_squared_is_68_7_billion_multiply_adds():
    with FlopCounterMode(display=False) as counter:
        a = torch.empty(4096, 4096, device="meta")
        product = a @ a
    assert counter.get_total_flops() // 2 == 4096**3 == 68_719_476_736
    assert product.numel() == 16_777_216


def test_a_grid_of_a_thread_for_each_output_runs_in_waves():
    card = card_named("A10")
    at_once = card.multiprocessors * occupancy(256, 0, 0, multiprocessor(card.capability)).blocks
    blocks = 4096 * 4096 // 256
    assert at_once == 432 and 150 < blocks / at_once < 152
    assert 256 * at_once > 9216


def test_the_block_is_chosen_at_each_launch():
    n = 2048
    for threads in (32, 96, 256, 1024):
        launch = launched(add, -(-n // threads), threads, torch.ones(n), torch.ones(n), torch.empty(n))
        assert launch.block == (threads, 1, 1) and not launch.faults and launch.total("stores") == n


def test_float32_products_are_float32_by_default():
    assert torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32


@cuda.jit
def as_written(a, b, c):
    i = cuda.threadIdx.x
    c[i] = a[i] + b[i]


def test_add_vector_as_written_runs_out_of_bounds_and_does_the_same_elements_in_every_block():
    a, c = torch.ones(100), torch.empty(100)
    launch = launched(as_written, 2, 128, a, a, c)
    assert {fault.array for fault in launch.faults} == {"a", "b", "c"} and launch.races
    repaired = launched(add, 2, 128, a, a, c)
    assert not repaired.faults and not repaired.races and c.eq(2).all()


@cuda.jit
def count(values, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(total, 0, values[i])


def test_blocks_communicate_through_atomics_on_global_memory():
    values, total = torch.arange(1000), torch.zeros(1, dtype=torch.int64)
    launch = launched(count, 8, 128, values, total)
    assert total.item() == values.sum() and not launch.races
