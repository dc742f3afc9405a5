"""bfloat16 is exact where it is modelled, and refused where Triton's interpreter computes nonsense."""

import numpy as np
import pytest
import torch

from gpulab.kernels import tl, triton
from gpulab.kernels.errors import CompileError
from gpulab.kernels.tiles.bfloat16 import rounded, widened


def bits(x: torch.Tensor) -> np.ndarray:
    return x.view(torch.uint16).numpy()


def test_rounding_is_pytorchs_for_every_upper_half_and_its_ties():
    upper = np.arange(2**16, dtype=np.uint32) << 16
    for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF):
        values = (upper | np.uint32(lower)).view(np.float32)
        expected = torch.from_numpy(values).to(torch.bfloat16)
        numbers = ~np.isnan(values)
        assert (rounded(values)[numbers] == bits(expected)[numbers]).all(), hex(lower)
        assert np.isnan(widened(rounded(values))[~numbers]).all()


def test_widening_is_pytorchs_for_all_bit_patterns():
    every = torch.arange(2**16, dtype=torch.int32).to(torch.uint16)
    expected = every.view(torch.bfloat16).float().numpy()
    assert (widened(every.numpy()).view(np.uint32) == expected.view(np.uint32)).all()


@triton.jit
def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, (3 * x).to(tl.bfloat16), mask=i < n)


def test_a_kernel_that_computes_in_float32_is_right_to_the_last_bit():
    x = torch.randn(1000).to(torch.bfloat16)
    out = torch.empty_like(x)
    scaled[(1,)](x, out, 1000, BLOCK=1024)
    assert torch.equal(out, (3 * x.float()).to(torch.bfloat16))


def test_a_float32_is_rounded_when_it_is_stored():
    @triton.jit
    def narrowed(x_ptr, out_ptr):
        i = tl.arange(0, 64)
        tl.store(out_ptr + i, tl.load(x_ptr + i))

    x, out = torch.randn(64), torch.empty(64, dtype=torch.bfloat16)
    narrowed[(1,)](x, out)
    assert torch.equal(out, x.to(torch.bfloat16))


def test_a_dot_of_bfloat16_adds_up_in_float32():
    @triton.jit
    def product(a_ptr, b_ptr, c_ptr):
        i = tl.arange(0, 32)
        at = i[:, None] * 32 + i[None, :]
        tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))

    a, b = torch.randn(32, 32).to(torch.bfloat16), torch.randn(32, 32).to(torch.bfloat16)
    c = torch.empty(32, 32)
    product[(1,)](a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-6, atol=1e-5)


@triton.jit
def doubled(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, x * 2)


@triton.jit
def raised(x_ptr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, tl.abs(x) - x)


@triton.jit
def added_up(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(x_ptr, tl.sum(x, axis=0))


@triton.jit
def compared(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(x_ptr + tl.arange(0, 4), (x > x).to(tl.bfloat16))


@triton.jit
def counted(x_ptr):
    tl.atomic_add(x_ptr, tl.load(x_ptr))


@pytest.mark.parametrize("kernel", [doubled, raised, added_up, compared, counted], ids=lambda k: k.__name__)
def test_arithmetic_in_bfloat16_is_refused_with_its_line(kernel):
    x = torch.ones(4, dtype=torch.bfloat16)
    with pytest.raises(CompileError, match="arithmetic in bfloat16 needs a GPU") as caught:
        kernel[(1,)](x)
    assert caught.value.line.function == kernel.__name__


def test_a_maximum_is_found_in_float32_as_triton_does():
    @triton.jit
    def largest(x_ptr, out_ptr):
        tl.store(out_ptr, tl.max(tl.load(x_ptr + tl.arange(0, 64)), axis=0))

    x, out = torch.randn(64).to(torch.bfloat16), torch.zeros(1, dtype=torch.bfloat16)
    largest[(1,)](x, out)
    assert out[0] == x.max()


def test_float8_is_refused():
    with pytest.raises(TypeError, match="float8_e4m3fn is not modelled"):
        scaled[(1,)](torch.zeros(4).to(torch.float8_e4m3fn), torch.zeros(4), 4, BLOCK=4)
