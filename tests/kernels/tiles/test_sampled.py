"""Sampled launches: one program of a grid runs, the first or the last, and makes so many accesses at most."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from gpulab.kernels.tiles.interpret import sampled


@triton.jit
def as_many_as_its_number(out_ptr, row, most):
    program = tl.program_id(0)
    for turn in range(tl.minimum(program + 1, most)):
        tl.store(out_ptr + program * row + turn, 1.0)


@triton.jit
def failing(out_ptr, nobody):
    tl.store(out_ptr, nobody.absent)


def launched(programs: int, accesses: int, most: int = 16):
    out = torch.zeros(programs, 16)
    with sampled(accesses) as ended, observe() as seen:
        as_many_as_its_number[(programs,)](out, 16, most)
    [launch] = seen.launches
    return launch, ended, out.sum(1).tolist()


def test_first_and_last_program_run_and_the_one_that_moves_more_is_counted():
    launch, ended, written = launched(programs=5, accesses=80)
    assert written == [1, 0, 0, 0, 5]
    assert (launch.grid, launch.total("stores"), ended) == ((5, 1, 1), 5, [True])


def test_a_grid_of_one_program_runs_it_once():
    launch, ended, written = launched(programs=1, accesses=80)
    assert (written, launch.total("stores"), ended) == ([1], 1, [True])


def test_a_program_is_left_after_so_many_accesses():
    launch, ended, written = launched(programs=5, accesses=3)
    assert (written, launch.total("stores"), ended) == ([1, 0, 0, 0, 3], 3, [False])


def test_a_program_that_makes_as_many_as_it_may_has_ended():
    assert launched(programs=3, accesses=3)[1] == [True]


def test_what_the_kernels_lines_raise_is_raised():
    with sampled(80), pytest.raises(Exception, match="absent"):
        failing[(2,)](torch.zeros(1), 3)
    assert run_whole() == 3


def test_afterwards_all_of_a_launch_runs():
    launched(programs=5, accesses=1)
    assert run_whole() == 3


def run_whole() -> float:
    out = torch.zeros(3, 16)
    as_many_as_its_number[(3,)](out, 16, 1)
    return out.sum().item()


def test_a_launch_outside_an_observed_block_is_sampled_too():
    out = torch.zeros(4, 16)
    with sampled(80) as ended:
        as_many_as_its_number[(4,)](out, 16, 16)
    assert (ended, out.sum().item()) == ([True], 5)
