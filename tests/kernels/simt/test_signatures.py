"""Explicit signatures: numbers take their types, arrays must have them, and errors come at once."""

import numpy as np
import pytest
import torch

from gpulab.kernels import CompileError, LaunchError, cuda
from gpulab.kernels.simt.signatures import read_signatures
from tests.kernels.simt.launching import floats, launched, zeros

numba = pytest.importorskip("numba", reason="numba is a test dependency: pip install -e .[test]")


def leading_zeros(out, x):
    out[0] = cuda.clz(x)


def scaled(out, x, a):
    i = cuda.grid(1)
    out[i] = x[i] * a


@pytest.mark.parametrize("kind, zeros_of_1", [("uint32", 31), ("int32", 31), ("uint64", 63), ("int64", 63)])
def test_a_number_takes_the_type_that_the_signature_names(kind, zeros_of_1):
    out = torch.zeros(1, dtype=torch.int32)
    cuda.jit(f"void(int32[:], {kind})")(leading_zeros)[1, 1](out, 1)
    assert out.item() == zeros_of_1


def test_a_float32_scalar_keeps_the_arithmetic_in_float32():
    x, out = torch.full((1,), 0.1), torch.zeros(1, dtype=torch.float64)
    cuda.jit("void(float64[:], float32[:], float32)")(scaled)[1, 1](out, x, 0.1)
    assert out.item() == float(np.float32(0.1) * np.float32(0.1))
    cuda.jit(scaled)[1, 1](out, x, 0.1)
    assert out.item() == float(np.float32(0.1)) * 0.1


@pytest.mark.parametrize(
    "given",
    [
        "void(float32[:], float32[::1], float64)",
        "(f4[:], f4[::1], f8)",
        numba.void(numba.float32[:], numba.float32[::1], numba.float64),
        (numba.float32[:], numba.float32[::1], numba.float64),
    ],
    ids=["text", "tuple in a text", "Numba's types", "a tuple of types"],
)
def test_a_signature_is_read_as_numba_reads_it(given):
    (signature,) = read_signatures(given)
    theirs, _ = numba.core.sigutils.normalize_signature(given)
    assert [str(typed) for typed in signature.arguments] == ["float32[:]", "float32[::1]", "float64"]
    assert [typed.ndim for typed in signature.arguments] == [getattr(t, "ndim", 0) for t in theirs]
    out = zeros(4)
    cuda.jit(given)(scaled)[1, 4](out, floats(4), 2)
    assert out.tolist() == [0, 2, 4, 6]


def test_the_signature_that_fits_best_is_taken():
    kernel = cuda.jit(["void(int32[:], int64)", "void(int32[:], uint32)"])(leading_zeros)
    out = torch.zeros(1, dtype=torch.int32)
    kernel[1, 1](out, 1)
    assert out.item() == 63
    kernel[1, 1](out, np.uint32(1))
    assert out.item() == 31


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (
            (torch.zeros(4, dtype=torch.float64), floats(4), 1.0),
            r"out is float64\[:\] where the signature says float32",
        ),
        ((zeros(2, 2), floats(4), 1.0), r"out is float32\[:,:\] where the signature says float32\[:\]"),
        ((zeros(4), floats(8)[::2], 1.0), "x is not contiguous as the signature says"),
        ((zeros(4), 3, 1.0), r"a int64 where the signature says float32\[::1\]"),
    ],
)
def test_an_array_that_has_not_the_signatures_type_is_refused(arguments, reason):
    with pytest.raises(LaunchError, match=reason):
        cuda.jit("void(float32[:], float32[::1], float64)")(scaled)[1, 4](*arguments)


def test_a_fraction_for_a_whole_number_is_refused():
    with pytest.raises(LaunchError, match="1.5 is no whole number"):
        cuda.jit("void(int32[:], int32)")(leading_zeros)[1, 1](torch.zeros(1, dtype=torch.int32), 1.5)


def test_with_a_signature_a_kernel_is_compiled_at_once():
    def outside_the_language(x):
        x[0] = [1, 2][0]

    with pytest.raises(CompileError, match="a list"):
        cuda.jit("void(float32[:])")(outside_the_language)
    with pytest.raises(CompileError, match="a list"):
        cuda.jit("float32(float32[:])", device=True)(outside_the_language)
    cuda.jit(outside_the_language)


@pytest.mark.parametrize(
    "given, error, reason",
    [
        ("void(int32[:])", CompileError, "2 arguments and 1 types"),
        ("int32(int32[:], int32)", CompileError, "returns nothing"),
        ("void(int32[:], str)", TypeError, "the interpreter follows numbers"),
        ("int32[:]", TypeError, "is no signature"),
        ("void(", TypeError, "is no signature"),
        (5, TypeError, "is no signature"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused(given, error, reason):
    with pytest.raises(error, match=reason):
        cuda.jit(given)(leading_zeros)


@cuda.jit("float32(float32, int32)", device=True)
def narrowed(x, n):
    return x * 0.1 + cuda.clz(n)


@cuda.jit
def calls_narrowed(out, x):
    out[0] = narrowed(x[0], 1)


def test_a_device_functions_signature_casts_its_arguments_and_its_result():
    out = torch.zeros(1, dtype=torch.float64)
    launched(calls_narrowed, 1, 1, out, torch.ones(1, dtype=torch.float64))
    assert out.item() == float(np.float32(0.1 + 31))
