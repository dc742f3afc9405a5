"""``triton.language.extra.libdevice``: values where the meaning is plain, else a refusal with its line."""

import pytest
import torch
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as of_cuda
from triton.language.extra.libdevice import erf as imported_by_name

from gpulab import observe
from gpulab.kernels import tl, triton
from gpulab.kernels.errors import CompileError


@triton.jit
def several(x_ptr, out_ptr, n):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i, mask=i < n, other=0.5)
    tl.store(out_ptr + i, libdevice.tanh(x), mask=i < n)
    tl.store(out_ptr + 64 + i, imported_by_name(x), mask=i < n)
    tl.store(out_ptr + 128 + i, of_cuda.expm1(x), mask=i < n)
    tl.store(out_ptr + 192 + i, tl.extra.libdevice.log1p(tl.abs(x)), mask=i < n)
    tl.store(out_ptr + 256 + i, libdevice.pow(tl.abs(x), 1.5), mask=i < n)
    tl.store(out_ptr + 320 + i, libdevice.rsqrt(tl.abs(x)), mask=i < n)
    tl.store(out_ptr + 384 + i, libdevice.exp2(x), mask=i < n)
    tl.store(out_ptr + 448 + i, libdevice.round(x), mask=i < n)
    tl.store(out_ptr + 512 + i, libdevice.isnan(x).to(tl.float32), mask=i < n)
    tl.store(out_ptr + 576 + i, libdevice.atan2(x, 2.0), mask=i < n)
    tl.store(out_ptr + 640 + i, libdevice.fast_expf(x), mask=i < n)
    tl.store(out_ptr + 704 + i, libdevice.div_rn(x, 3.0), mask=i < n)


def test_values_are_those_of_the_function_rounded_to_float32():
    x, out = torch.randn(64), torch.zeros(12, 64)
    several[(1,)](x, out, 64)
    d = x.double()
    away = d.sign() * (d.abs() + 0.5).floor()
    due = [
        d.tanh(), d.erf(), d.expm1(), d.abs().log1p(), d.abs() ** 1.5, d.abs().rsqrt(), d.exp2(), away, 0 * d,
        torch.atan2(d, torch.tensor(2.0).double()), d.exp(), d / 3,
    ]  # fmt: skip
    for row, (found, expected) in enumerate(zip(out, due)):
        torch.testing.assert_close(
            found, expected.float(), rtol=1e-7, atol=0, msg=lambda text, row=row: f"row {row}: {text}"
        )


def test_a_masked_lane_stays_one_and_flops_are_counted():
    @triton.jit
    def gelu(x_ptr, out_ptr, n):
        i = tl.arange(0, 16)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(out_ptr + i, libdevice.tanh(x))

    with observe() as seen:
        gelu[(1,)](torch.ones(16), torch.zeros(16), 10)
    (launch,) = seen.launches
    assert [fault.kind for fault in launch.faults] == ["masked lane used"] and launch.total("flops") == 16


@triton.jit
def rounds_down(x_ptr):
    tl.store(x_ptr, libdevice.add_rd(tl.load(x_ptr), 1.0))


@triton.jit
def takes_half(x_ptr):
    tl.store(x_ptr, libdevice.tanh(tl.load(x_ptr).to(tl.float16)))


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [(rounds_down, "libdevice.*runs on a GPU only"), (takes_half, "convert with .to")],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_what_is_not_known_is_refused_with_its_line(kernel, reason):
    with pytest.raises(CompileError, match=reason) as caught:
        kernel[(1,)](torch.ones(1))
    assert "libdevice" in caught.value.line.text


def test_integer_functions_are_exact():
    @triton.jit
    def bits(x_ptr, out_ptr):
        i = tl.arange(0, 4)
        x = tl.load(x_ptr + i)
        tl.store(out_ptr + i, libdevice.clz(x))
        tl.store(out_ptr + 4 + i, libdevice.popc(x))
        tl.store(out_ptr + 8 + i, libdevice.ffs(x))

    out = torch.zeros(12, dtype=torch.int32)
    bits[(1,)](torch.tensor([0, 1, -1, 24], dtype=torch.int32), out)
    assert out.tolist() == [32, 31, 0, 27, 0, 1, 32, 2, 0, 1, 1, 4]
