"""gpulab.formats: every pattern decodes as PyTorch's dtypes and ml_dtypes have it, bit for bit."""

import ml_dtypes
import numpy as np
import pytest
import torch

from gpulab.formats import BLOCK_FORMATS, E2M1, E4M3, E8M0, FORMATS, FP32, TF32, unpack_fp4

INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32}
ML_DTYPES = {
    "bf16": "bfloat16",
    "fp8 e4m3": "float8_e4m3fn",
    "fp8 e5m2": "float8_e5m2",
    "fp6 e3m2": "float6_e3m2fn",
    "fp6 e2m3": "float6_e2m3fn",
    "fp4 e2m1": "float4_e2m1fn",
    "e8m0": "float8_e8m0fnu",
}
SMALL = [name for name, one in FORMATS.items() if one.dtype is not None and one.bits <= 16]


def same(a, b):
    a, b = a.double(), b.double()
    return (
        torch.equal(a.isnan(), b.isnan())
        and torch.equal(a.nan_to_num(nan=0), b.nan_to_num(nan=0))
        and torch.equal(a.signbit() | a.isnan(), b.signbit() | b.isnan())
    )


def stored(patterns, bits):
    """Patterns as the signed or unsigned integers that PyTorch stores."""
    return patterns.to(torch.uint8) if bits == 8 else patterns.to(torch.int64).to(INTEGERS[bits])


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_is_what_pytorch_reads(name):
    fmt = FORMATS[name]
    patterns = torch.arange(2**fmt.bits)
    assert same(fmt.decode(patterns), stored(patterns, fmt.bits).view(fmt.dtype).float())


@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_pattern_is_what_ml_dtypes_reads(name):
    fmt = FORMATS[name]
    patterns = np.arange(2**fmt.bits, dtype=np.uint16 if fmt.bits > 8 else np.uint8)
    read = patterns.view(getattr(ml_dtypes, ML_DTYPES[name])).astype(np.float64)
    assert same(fmt.decode(torch.from_numpy(patterns.astype(np.int64))), torch.from_numpy(read))


def test_fp32_patterns_are_what_pytorch_reads():
    patterns = torch.randint(2**32, (100_000,), generator=torch.Generator().manual_seed(1))
    edges = torch.tensor([0, 1, 2**23 - 1, 2**23, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 2**31, 2**32 - 1])
    patterns = torch.cat((patterns, edges))
    assert same(FP32.decode(patterns), patterns.to(torch.int32).view(torch.float32))


def test_tf32_is_the_upper_bits_of_a_float32_and_occupies_all_of_it():
    patterns = torch.arange(2**19)
    assert same(TF32.decode(patterns), (patterns << 13).to(torch.int32).view(torch.float32))
    assert (TF32.bits, TF32.stored_bits) == (19, 32)


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if one.dtype is not None and one.signed])
def test_the_table_agrees_with_finfo(name):
    fmt, known = FORMATS[name], torch.finfo(FORMATS[name].dtype)
    assert (fmt.largest, fmt.least_normal, fmt.epsilon) == (known.max, known.tiny, known.eps)
    assert fmt.least == known.smallest_normal * known.eps and fmt.stored_bits == known.bits


@pytest.mark.parametrize("name", ["fp6 e3m2", "fp6 e2m3", "fp4 e2m1"])
def test_the_table_agrees_with_ml_dtypes(name):
    fmt, known = FORMATS[name], ml_dtypes.finfo(getattr(ml_dtypes, ML_DTYPES[name]))
    assert (fmt.largest, fmt.least_normal, fmt.least) == (known.max, known.smallest_normal, known.smallest_subnormal)


def test_a_pattern_that_is_too_long_is_refused():
    for pattern in (-1, 16):
        with pytest.raises(ValueError, match="from 0 to 15"):
            E2M1.decode(torch.tensor(pattern))


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_a_block_is_its_numbers_times_its_scale_as_ml_dtypes_reads_both(name):
    fmt = BLOCK_FORMATS[name]
    rng = np.random.default_rng(2)
    elements = rng.integers(2**fmt.element.bits, size=(4, 64 * fmt.block)).astype(np.uint8)
    scales = rng.integers(2**fmt.scale.bits, size=(4, 64)).astype(np.uint8)
    read = elements.view(getattr(ml_dtypes, ML_DTYPES[fmt.element.name])).astype(np.float64)
    by = scales.view(getattr(ml_dtypes, ML_DTYPES[fmt.scale.name])).astype(np.float64)
    whole = 0.37 if fmt.tensor_scale else 1.0
    found = fmt.decode(torch.from_numpy(elements), torch.from_numpy(scales), whole)
    assert same(found, torch.from_numpy(read * (np.repeat(by, fmt.block, -1) * whole)))


def test_a_scale_that_is_nan_spoils_its_whole_block_and_no_other():
    found = BLOCK_FORMATS["MXFP4"].decode(torch.full((64,), 2), torch.tensor([255, 127]))
    assert found[:32].isnan().all() and found[32:].eq(1).all()


def test_bits_per_number_count_the_scale():
    assert {name: one.bits_per_number for name, one in BLOCK_FORMATS.items()} == {
        "MXFP8 e4m3": 8.25,
        "MXFP8 e5m2": 8.25,
        "MXFP6 e3m2": 6.25,
        "MXFP6 e2m3": 6.25,
        "MXFP4": 4.25,
        "NVFP4": 4.5,
    }


def test_blocks_that_do_not_fit_are_refused():
    nv, mx = BLOCK_FORMATS["NVFP4"], BLOCK_FORMATS["MXFP4"]
    with pytest.raises(ValueError, match="a scale for each 16"):
        nv.decode(torch.zeros(2, 32), torch.zeros(2, 1))
    with pytest.raises(ValueError, match="a scale for each 32"):
        mx.decode(torch.zeros(2, 32), torch.zeros(1))
    with pytest.raises(ValueError, match="no scale for the whole tensor"):
        mx.decode(torch.zeros(32), torch.zeros(1), 0.5)


def test_two_fp4_numbers_share_a_byte_the_first_in_its_low_half():
    packed = torch.tensor([[0x21, 0xF0]], dtype=torch.uint8)
    assert E2M1.decode(unpack_fp4(packed)).tolist() == [[0.5, 1.0, 0.0, -6.0]]


def test_the_scales_of_the_two_families_reach_differently():
    assert (E8M0.least, E8M0.largest) == (2.0**-127, 2.0**127)
    assert (E4M3.least, E4M3.largest) == (2.0**-9, 448.0)
