"""What E8.1's hidden tests hold for right is PyTorch's cast, or ml_dtypes', bit for bit."""

import ml_dtypes
import numpy as np
import pytest
import torch

from exercises.precision.round_to.judge import _expected, _same
from gpulab.formats import FORMATS

BY_ML_DTYPES = {
    "fp6 e3m2": ml_dtypes.float6_e3m2fn,
    "fp6 e2m3": ml_dtypes.float6_e2m3fn,
    "fp4 e2m1": ml_dtypes.float4_e2m1fn,
}


def numbers_of(name):
    """Every pattern's number, halfway to the next, and the float32 numbers beside both; of both signs."""
    fmt = FORMATS[name]
    exact = fmt.decode(torch.arange(2 ** (fmt.bits - 1)))
    exact = torch.cat([exact, (exact[1:] + exact[:-1]) / 2, exact * 1.37]).float()
    beside = [torch.nextafter(exact, torch.tensor(towards)) for towards in (-torch.inf, torch.inf)]
    x = torch.cat(
        [exact, *beside, torch.tensor([0.0, 1e-40, 464.0, 465.0, 65519.99, 65520.0, 61440.0, 3e38, torch.inf])]
    )
    x = torch.cat([x, -x])
    return x[~x.isnan()] if fmt.reserved == "none" else torch.cat([x, torch.tensor([torch.nan])])


def expected(x, name):
    fmt = FORMATS[name]
    return _expected(x, (fmt.exponent_bits, fmt.mantissa_bits, fmt.reserved))


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8 e5m2", "fp8 e4m3"])
def test_values_are_those_of_pytorchs_cast(name):
    x = numbers_of(name)
    assert _same(expected(x, name)[0], x.to(FORMATS[name].dtype).float()).all()


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8 e5m2", "fp8 e4m3"])
def test_patterns_are_those_that_pytorch_stores(name):
    x = numbers_of(name)
    x = x[~x.isnan()]
    bits = FORMATS[name].bits
    stored = x.to(FORMATS[name].dtype).view(torch.int16 if bits == 16 else torch.int8).int() % 2 ** (bits - 1)
    assert torch.equal(expected(x, name)[1].int(), stored)


@pytest.mark.parametrize("name", BY_ML_DTYPES)
def test_values_of_formats_without_a_dtype_are_those_of_ml_dtypes(name):
    x = numbers_of(name)
    right = torch.from_numpy(x.numpy().astype(BY_ML_DTYPES[name]).astype(np.float32))
    assert _same(expected(x, name)[0], right).all()


@pytest.mark.parametrize("name", ["tf32", "fp32"])
def test_wide_formats_keep_their_own_numbers(name):
    step = 13 if name == "tf32" else 0
    x = (
        torch.randint(0, 2**31 - 2**24, (10_000,), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
        >> step
        << step
    ).view(torch.float32)
    assert _same(expected(x, name)[0], x).all()
