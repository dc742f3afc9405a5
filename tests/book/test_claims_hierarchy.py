"""Tests that settle the claims of the chapter "The memory hierarchy", one per claim."""

import pytest
import torch

import gpulab
import gpulab.cuda
from gpulab.kernels import LaunchError, cuda, float32
from gpulab.plots.roofline import Point, attainable

TILE = 16


def kernel_with(words):
    @cuda.jit
    def kernel(out):
        held = cuda.shared.array(words, float32)
        held[cuda.threadIdx.x] = 1
        out[cuda.threadIdx.x] = held[cuda.threadIdx.x]

    return kernel


@cuda.jit
def uses_dynamic(out):
    held = cuda.shared.array(0, float32)
    held[cuda.threadIdx.x] = 1
    out[cuda.threadIdx.x] = held[cuda.threadIdx.x]


KIB = 1024


def test_static_arrays_alone_are_limited_to_48_kib():
    out = torch.zeros(32)
    kernel_with(48 * KIB // 4)[1, 32](out)
    with pytest.raises(LaunchError, match="too much shared data"):
        kernel_with(48 * KIB // 4 + 1)[1, 32](out)
    for card, most in (("T4", 64), ("A100", 163), ("H100", 227)):
        with gpulab.cuda.use(f"virtual:{card}", quiet=True):
            there = torch.zeros(32, device="cuda")
            uses_dynamic[1, 32, 0, most * KIB](there)
            with pytest.raises(LaunchError, match="at most"):
                uses_dynamic[1, 32, 0, most * KIB + 4](there)


@cuda.jit
def naive(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for i in range(a.shape[1]):
        total += a[row, i] * b[i, column]
    c[row, column] = total


@cuda.jit
def tiled(a, b, c):
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        a_tile[y, x] = a[row, start + x]
        b_tile[y, x] = b[start + y, column]
        cuda.syncthreads()
        for i in range(TILE):
            total += a_tile[y, i] * b_tile[i, x]
        cuda.syncthreads()
    c[row, column] = total


def product(kernel, size):
    a, b, c = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
    with gpulab.observe() as seen:
        kernel[(size // TILE, size // TILE), (TILE, TILE)](a, b, c)
    assert torch.equal(c, a @ b)
    return seen.launches[0]


def test_tiling_divides_the_loads_by_the_tile_and_never_to_zero():
    for size in (32, 64):
        assert product(naive, size).total("loads") == 2 * size**3
        assert product(tiled, size).total("loads") == 2 * size**3 // TILE > 2 * size**2


def test_bandwidth_bounds_what_a_card_gains_where_memory_binds():
    slower, faster = (gpulab.cuda.CARDS[key] for key in ("T4", "H100"))
    gemv = Point("gemv", 2 * 4096**2, 2 * (4096**2 + 2 * 4096), "fp16")
    gemm = Point("gemm", 2 * 4096**3, 2 * 3 * 4096**2, "fp16")
    bandwidths = faster.bytes_per_s / slower.bytes_per_s
    peaks = faster.flops_per_s["fp16"] / slower.flops_per_s["fp16"]
    assert attainable(faster, gemv) / attainable(slower, gemv) == pytest.approx(bandwidths)
    assert attainable(faster, gemm) / attainable(slower, gemm) == pytest.approx(peaks)
    assert bandwidths < 11 and peaks < 16
