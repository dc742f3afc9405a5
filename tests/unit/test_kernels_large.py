"""Of a launch of many programs one is counted, the first or the last, and only so far."""

import math

import torch

from exercises.kernels.run_large import launched_large
from gpulab import Observation
from gpulab.kernels import tl, triton

SIZE = 1_100_000


@triton.jit
def doubling(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < size), mask=at < size)


@triton.jit
def striding(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < size), mask=at < size)


@triton.jit
def backwards(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < size), mask=at < size)


def launched(kernel, programs, block):
    def function(x):
        out = torch.empty_like(x)
        kernel[(programs,)](x, out, x.numel(), BLOCK=block)
        return out

    return launched_large(function, [[SIZE]], "float32")


def test_the_first_program_is_counted_and_the_grid_is_whole():
    evidence = launched(doubling, math.ceil(SIZE / 1024), 1024)
    [launch] = Observation.from_dict(evidence["seen"]).launches
    assert evidence["ended"]
    assert (launch.grid[0], launch.total("written_bytes"), launch.total("read_bytes")) == (1075, 4096, 4096)


def test_the_last_program_is_counted_where_it_does_more():
    [launch] = Observation.from_dict(launched(backwards, math.ceil(SIZE / 1024), 1024)["seen"]).launches
    assert (launch.total("written_bytes"), launch.total("read_bytes")) == (4096, 4096)


def test_a_long_loop_is_left_and_said_not_to_have_ended():
    evidence = launched(striding, 8, 128)
    [launch] = Observation.from_dict(evidence["seen"]).launches
    assert not evidence["ended"]
    assert 0 < launch.total("written_bytes") < SIZE


def test_a_short_loop_ends():
    assert launched(striding, 1000, 1024)["ended"]


def test_afterwards_every_program_runs():
    launched(doubling, 2, 1024)
    x = torch.ones(3000)
    out = torch.empty_like(x)
    doubling[(3,)](x, out, 3000, BLOCK=1024)
    assert torch.equal(out, 2 * x)
