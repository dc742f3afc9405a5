"""Answers to chapter "The memory hierarchy" that were not earned."""

import pytest
import torch

import gpulab
import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.kernels import cuda, float32
from gpulab.kernels.simt import races

TILE = 16


@pytest.fixture(autouse=True, params=["off", "virtual:H100"])
def runtime(request):
    """A learner's card may be on or off when the hidden tests begin."""
    with gpulab.cuda.use(request.param, quiet=True):
        yield


def score(exercise, function, seed=7):
    name = f"hierarchy.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def blocks(columns, rows):
    return (-(-columns // TILE), -(-rows // TILE))


@cuda.jit
def multiply(a, b, c):
    """A right tiled product."""
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        a_tile[y, x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else 0
        b_tile[y, x] = b[start + y, column] if start + y < b.shape[0] and column < b.shape[1] else 0
        cuda.syncthreads()
        for i in range(TILE):
            total += a_tile[y, i] * b_tile[i, x]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@cuda.jit
def multiply_unguarded(a, b, c):
    """The same without the second barrier: the product is right, and the tiles race."""
    a_tile = cuda.shared.array((TILE, TILE), float32)
    b_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        a_tile[y, x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else 0
        b_tile[y, x] = b[start + y, column] if start + y < b.shape[0] and column < b.shape[1] else 0
        cuda.syncthreads()
        for i in range(TILE):
            total += a_tile[y, i] * b_tile[i, x]
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def launched(kernel, a, b):
    c = torch.empty(len(a), b.shape[1], device=a.device)
    if c.numel():
        kernel[blocks(b.shape[1], len(a)), (TILE, TILE)](a, b, c)
    return c


def test_a_race_detector_replaced_before_the_hidden_tests_earns_nothing(monkeypatch):
    monkeypatch.setattr(races.Shadow, "write", lambda *arguments: None)
    assert score("tiled_matmul", lambda a, b: launched(multiply_unguarded, a, b)) == 0


def test_a_right_product_earns_what_it_should():
    def tiled_matmul(a, b):
        if a.shape[1] != b.shape[0]:
            raise ValueError("sizes")
        return launched(multiply, a, b)

    assert score("tiled_matmul", tiled_matmul) == 10


def test_hidden_inputs_are_never_the_same_twice():
    for exercise in ("sectors", "row_sums", "tiled_matmul", "work", "roofline"):
        name, runs = f"hierarchy.{exercise}", []
        for _ in range(2):
            runs.append(seen := [])
            judge_here(name, lambda data, seen=seen: seen.append(data) or run_case(name, {}, data))
        assert sum(inputs in runs[0] for inputs in runs[1]) <= 3, exercise
