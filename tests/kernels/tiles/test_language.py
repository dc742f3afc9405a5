"""What Triton's compiler would refuse is refused without a GPU too, with its line."""

import math

import numpy as np
import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from gpulab.kernels.errors import CompileError, LaunchError
from tests.kernels.tiles import kernels

WIDTH = 8
WIDTH_CONSTANT = tl.constexpr(8)


@triton.jit
def calls_numpy(out_ptr):
    tl.store(out_ptr, np.sqrt(2.0))


@triton.jit
def calls_torch(out_ptr):
    tl.store(out_ptr, torch.ones(1).item())


@triton.jit
def calls_math(out_ptr):
    tl.store(out_ptr, math.sqrt(2.0))


@triton.jit
def reads_a_global(out_ptr):
    tl.store(out_ptr + tl.arange(0, WIDTH), 1.0)


@triton.jit
def breaks(out_ptr):
    for i in range(4):
        tl.store(out_ptr + i, 1.0)
        break


@triton.jit
def returns_in_a_loop(out_ptr):
    for i in range(4):
        tl.store(out_ptr + i, 1.0)
        return


@triton.jit
def chains(out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, 1.0, mask=0 <= i < 4)


@triton.jit
def tries(out_ptr):
    try:
        tl.store(out_ptr, 1.0)
    finally:
        pass


@triton.jit
def loops_over_a_list(out_ptr):
    for i in [0, 1]:
        tl.store(out_ptr + i, 1.0)


@triton.jit
def sums_with_python(out_ptr):
    tl.store(out_ptr, sum([1, 2]))


def plain_function(x):
    return x


@triton.jit
def calls_a_plain_function(out_ptr):
    tl.store(out_ptr, plain_function(1.0))


@triton.jit
def misspells(out_ptr):
    tl.store(out_ptr, values)  # noqa: F821


@pytest.mark.parametrize(
    ("kernel", "reason", "text"),
    [
        (calls_numpy, "np is the module numpy", "np.sqrt"),
        (calls_torch, "torch is the module torch", "torch.ones"),
        (calls_math, "math is the module math", "math.sqrt"),
        (reads_a_global, "WIDTH is a int of Python's", "WIDTH"),
        (breaks, "does not compile Break", "break"),
        (returns_in_a_loop, "return inside a loop", "for i"),
        (chains, "chained comparison", "0 <= i < 4"),
        (tries, "does not compile Try", "try"),
        (loops_over_a_list, "a loop runs over range", "for i"),
        (sums_with_python, r"no built-in sum\(\)", "sum"),
        (calls_a_plain_function, "plain_function is a function of Python's", "plain_function"),
        (misspells, "'values' is not defined", "values"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused(kernel, reason, text):
    out = torch.zeros(8)
    with pytest.raises(CompileError, match=reason) as caught:
        kernel[(1,)](out)
    assert text in caught.value.line.text and caught.value.line.function == kernel.__name__
    assert out.eq(0).all(), "refused before anything ran"


def test_a_constexpr_global_is_allowed():
    @triton.jit
    def fills(out_ptr):
        tl.store(out_ptr + tl.arange(0, WIDTH_CONSTANT), 1.0)

    out = torch.zeros(8)
    fills[(1,)](out)
    assert out.eq(1).all()


def test_a_condition_on_a_block_is_refused():
    @triton.jit
    def branches(x_ptr):
        x = tl.load(x_ptr + tl.arange(0, 8))
        if x > 0:
            tl.store(x_ptr, 1.0)

    with pytest.raises(ValueError, match="a condition needs one value"):
        branches[(1,)](torch.ones(8))


def test_a_condition_on_one_value_takes_one_branch():
    @triton.jit
    def branches(x_ptr, out_ptr):
        x = tl.load(x_ptr + tl.program_id(0))
        if x > 0:
            tl.store(out_ptr + tl.program_id(0), 1.0)
        else:
            tl.store(out_ptr + tl.program_id(0), -1.0)

    out = torch.zeros(2)
    branches[(2,)](torch.tensor([3.0, -3.0]), out)
    assert out.tolist() == [1.0, -1.0]


@pytest.mark.filterwarnings("ignore:builtin m")
def test_min_and_max_are_tritons_elementwise_ones():
    @triton.jit
    def clamp(x_ptr, out_ptr):
        i = tl.arange(0, 8)
        tl.store(out_ptr + i, max(min(tl.load(x_ptr + i), 1.0), -1.0))  # deprecated, and still compiles

    x, out = 3 * torch.randn(8), torch.zeros(8)
    clamp[(1,)](x, out)
    assert torch.equal(out, x.clamp(-1, 1))


def test_a_block_size_that_is_no_power_of_two_is_refused():
    with pytest.raises(ValueError, match="power of 2"):
        kernels.copy[(1,)](torch.ones(6), torch.zeros(6), 6, BLOCK=6)


def test_a_dot_narrower_than_the_matrix_units_is_refused():
    @triton.jit
    def small(x_ptr, out_ptr):
        i = tl.arange(0, 8)
        x = tl.load(x_ptr + i[:, None] * 8 + i[None, :])
        tl.store(out_ptr + i[:, None] * 8 + i[None, :], tl.dot(x, x))

    with pytest.raises(AssertionError, match="K >= 16"):
        small[(1,)](torch.ones(8, 8).half(), torch.zeros(8, 8))


def test_inline_assembly_is_refused_with_its_line():
    @triton.jit
    def assembly(x_ptr):
        x = tl.load(x_ptr)
        y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1)
        tl.store(x_ptr, y)

    with pytest.raises(CompileError, match="runs on a GPU only(?s:.)*tl.inline_asm_elementwise"):
        assembly[(1,)](torch.ones(1, dtype=torch.int32))


@pytest.mark.parametrize("grid", [(1, 2, 3, 4), 5, (), (-1,), (1.0,), (True,), (1, 70_000)], ids=str)
def test_a_grid_that_cuda_would_not_launch_is_refused(grid):
    with pytest.raises(LaunchError, match="grid"):
        kernels.copy[grid](torch.ones(4), torch.zeros(4), 4, BLOCK=4)


def test_a_grid_of_no_programs_launches_nothing():
    out = torch.zeros(4)
    with observe() as seen:
        kernels.copy[(0,)](torch.ones(4), out, 4, BLOCK=4)
    assert seen.launches == () and out.eq(0).all()


def test_an_option_that_triton_does_not_know_is_refused():
    kernels.copy[(1,)](torch.ones(4), torch.zeros(4), 4, BLOCK=4, num_warps=8)
    with pytest.raises(KeyError, match="num_wraps was specified but unrecognised"):
        kernels.copy[(1,)](torch.ones(4), torch.zeros(4), 4, BLOCK=4, num_wraps=8)


@pytest.mark.parametrize("value", ["text", np.ones(4), [1, 2]], ids=lambda v: type(v).__name__)
def test_an_argument_that_triton_does_not_take_is_refused(value):
    with pytest.raises(TypeError, match="n: a Triton kernel takes tensors, numbers and None"):
        kernels.copy[(1,)](torch.ones(4), torch.zeros(4), value, BLOCK=4)


def test_a_kernel_without_a_grid_cannot_be_called():
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        kernels.copy(torch.ones(4), torch.zeros(4), 4, BLOCK=4)


def test_none_and_flags_and_numbers_arrive_as_they_are():
    @triton.jit
    def affine(x_ptr, bias_ptr, out_ptr, scale, negate, big):
        i = tl.arange(0, 4)
        y = tl.load(x_ptr + i) * scale
        if bias_ptr is not None:
            y += tl.load(bias_ptr + i)
        if negate:
            y = -y
        tl.store(out_ptr + i, y + (big >> 40).to(tl.float32))

    x, out = torch.randn(4), torch.zeros(4)
    affine[(1,)](x, None, out, 0.5, True, 3 << 40)
    torch.testing.assert_close(out, 3 - 0.5 * x)
    affine[(1,)](x, torch.ones(4), out, 2.0, False, 0)
    torch.testing.assert_close(out, 2 * x + 1)


@pytest.mark.parametrize("warps", [0, 3, 64, 4.0])
def test_a_number_of_warps_that_triton_does_not_compile_is_refused(warps):
    with pytest.raises(LaunchError, match="num_warps=.*a power of two from 1 to 32"):
        kernels.copy[(1,)](torch.ones(4), torch.zeros(4), 4, BLOCK=4, num_warps=warps)
