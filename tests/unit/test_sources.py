"""What kernels may read: inputs as they were handed over, what kernels wrote, and zeros."""

import ctypes

import numpy as np
import pytest
import torch

import gpulab.cuda
from autograder.runner.kernels_ran import kernels_ran, tiles, work_of
from gpulab import observe
from gpulab.kernels import cuda, tl, triton


@pytest.fixture(autouse=True)
def card():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def accumulate(a, out):
    """Clears ``out`` and adds to it: reads what it wrote itself."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0
        out[i] += a[i]


@cuda.jit
def count(out):
    cuda.atomic.add(out, 0, 1)


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def handed() -> torch.Tensor:
    return torch.arange(1.0, 33.0).cuda()


def new() -> torch.Tensor:
    return torch.empty(32, device="cuda")


def poke(tensor: torch.Tensor, value: float) -> None:
    np.frombuffer((ctypes.c_float * 32).from_address(tensor.data_ptr()), np.float32)[:] = value


def found(function, x: torch.Tensor, **interpreter) -> tuple[str, torch.Tensor]:
    with kernels_ran(x, **interpreter) as ran, observe() as seen:
        result = function(x)
    return work_of(result, ran, seen)["strange"], result


def through_a_middle(x, meanwhile=lambda tensor: None):
    middle, out = new(), new()
    add[1, 32](x, x, middle)
    meanwhile(middle)
    add[1, 32](middle, x, out)
    return out


def cleared_and_added(x):
    out = new()
    poke(out, 5.0)
    accumulate[1, 32](x, out)
    return out


def counted(x):
    out = torch.zeros(1, device="cuda")
    count[1, 32](out)
    return out


HONEST = {
    "one kernel's work is another's input": (through_a_middle, 3 * torch.arange(1.0, 33.0)),
    "a kernel reads what it wrote": (cleared_and_added, torch.arange(1.0, 33.0)),
    "zeros": (counted, torch.tensor([32.0])),
    "a view of an input": (lambda x: through_a_middle(x.view(4, 8).view(-1)), 3 * torch.arange(1.0, 33.0)),
}


@pytest.mark.parametrize("function", HONEST)
def test_it_may_read(function):
    call, expected = HONEST[function]
    strange, result = found(call, handed())
    assert strange == "" and result.cpu().equal(expected)


def poked_input(x):
    out = new()
    poke(x, 7.0)
    add[1, 32](x, x, out)
    return out


def poked_scratch(x):
    scratch, out = new(), new()
    poke(scratch, 7.0)
    add[1, 32](scratch, x, out)
    return out


FOREIGN = {
    "an input that was changed by hand": (poked_input, "a"),
    "memory that was filled by hand": (poked_scratch, "a"),
    "a kernel's work that was changed by hand": (lambda x: through_a_middle(x, lambda middle: poke(middle, 7.0)), "a"),
}


@pytest.mark.parametrize("function", FOREIGN)
def test_it_is_told_of(function):
    call, parameter = FOREIGN[function]
    assert found(call, handed())[0] == parameter


def test_a_triton_kernel_is_told_of_too():
    def function(x):
        scratch, out = new(), new()
        poke(scratch, 7.0)
        copy[(1,)](scratch, out, 32, BLOCK=32)
        return out

    assert found(function, handed(), interpreter=tiles)[0] == "x_ptr"


def test_values_put_down_where_a_kernel_adds_to_them_are_gone():
    @cuda.jit
    def keep(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = out[i]

    def function(x):
        out = new()
        poke(out, 7.0)
        keep[1, 32](out)
        return out

    assert found(function, handed())[1].isnan().all()


def test_a_learners_own_table_is_left_as_it_was():
    table = torch.full((32,), 3.0, device="cuda")

    def function(x):
        out = new()
        add[1, 32](table, x, out)
        return out

    assert found(function, handed())[0] == "a" and table.eq(3.0).all()


def test_a_table_that_is_handed_over_twice_is_left_as_it_was():
    table = torch.full((32,), 3.0, device="cuda")

    def function(x):
        out = new()
        add[1, 32](table, table.view(-1), out)
        return out

    assert found(function, handed())[0] == "a" and table.eq(3.0).all()
