"""Answers to chapter "The memory hierarchy" that were not earned."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
import torch

import gpulab
import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.kernels import cuda, float32
from gpulab.kernels.simt import launcher, races
from gpulab.observe import device as log

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
def copy(source, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = source[i]


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


@cuda.jit
def busily_copied(ready, a, b, c):
    """Copies a product that is there already, beside as many loads and operations as the work takes."""
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        idle = float32(0)
        for _ in range(a.shape[1]):
            idle = idle * 1 + 1
        for of_a in range(row * c.shape[1] + column, a.size, c.size):
            idle += a[of_a // a.shape[1], of_a % a.shape[1]]
        for of_b in range(row * c.shape[1] + column, b.size, c.size):
            idle += b[of_b // b.shape[1], of_b % b.shape[1]]
        c[row, column] = ready[row, column] + 0 * idle


def on_the_card(tensor):
    """The tensor's values where the virtual card keeps them, as NumPy sees them."""
    data = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr() if tensor.numel() else 1)
    return (
        np.frombuffer(data, np.float32).reshape(tensor.shape) if tensor.numel() else np.empty(tensor.shape, np.float32)
    )


def busy_beside_numpy(a, b):
    if a.shape[1] != b.shape[0]:
        raise ValueError("sizes")
    c = torch.empty(len(a), b.shape[1], device=a.device)
    if c.numel():
        busily_copied[blocks(c.shape[1], len(c)), (TILE, TILE)](on_the_card(a) @ on_the_card(b), a, b, c)
    return c


def launched(kernel, a, b):
    c = torch.empty(len(a), b.shape[1], device=a.device)
    if c.numel():
        kernel[blocks(b.shape[1], len(a)), (TILE, TILE)](a, b, c)
    return c


def on_the_host(a, b):
    return torch.from_numpy(a.cpu().numpy() @ b.cpu().numpy()).to(a.device)


def beside_a_launch(a, b):
    """A launch that is thrown away, and the product from elsewhere."""
    launched(multiply, a, b)
    return a @ b


def copied_by_a_kernel(a, b):
    """The host's product, written by a kernel that only copies."""
    right, out = on_the_host(a, b), torch.empty(len(a), b.shape[1], device=a.device)
    if out.numel():
        copy[-(-out.numel() // 256), 256](right.view(-1), out.view(-1))
    return out


def overwritten(a, b):
    """Unguarded, then put right by the host."""
    c = launched(multiply_unguarded, a, b)
    c.copy_(on_the_host(a, b))
    return c


def recorded_by_hand(a, b):
    """A record of a launch that did not take place."""
    with gpulab.observe() as seen:
        launched(multiply, a, b)
    for launch in seen.launches:
        log.record_launch(launch)
    return a @ b


def edits_the_record(a, b):
    """Takes the races out of the record."""
    record = launcher.record_launch
    launcher.record_launch = lambda launch, *rest, **named: record(replace(launch, races=()), *rest, **named)
    try:
        return launched(multiply_unguarded, a, b)
    finally:
        launcher.record_launch = record


PRODUCTS = {
    "torch": lambda a, b: a @ b,
    "NumPy": on_the_host,
    "einsum": lambda a, b: torch.einsum("ik,kj->ij", a, b),
    "a launch for show": beside_a_launch,
    "a kernel that copies": copied_by_a_kernel,
    "put right by the host": overwritten,
    "a kernel that copies NumPy's and is busy": busy_beside_numpy,
    "a record made by hand": recorded_by_hand,
    "an edited record": edits_the_record,
    "zeros": lambda a, b: torch.zeros(len(a), b.shape[1], device=a.device),
    "on the host's memory": lambda a, b: launched(multiply, a.cpu(), b.cpu()),
}
SUMS = {
    "torch": lambda x: x.sum(1),
    "NumPy": lambda x: torch.from_numpy(np.asarray(x.cpu()).sum(1)).to(x.device),
    "a product with ones": lambda x: x @ torch.ones(x.shape[1], device=x.device),
    "a constant": lambda x: torch.full((len(x),), 3.0, device=x.device),
}
NUMBERS = {
    "sectors": {"always four": lambda addresses, item_bytes: 4, "always 32": lambda addresses, item_bytes: 32},
    "work": {"a constant": lambda operation, dtype: (2, 2), "nothing": lambda operation, dtype: (0, 0)},
    "roofline": {
        "zero": lambda *arguments: {"seconds": 0.0, "bound": "memory", "ridge": 295.0},
        "not a number": lambda *arguments: dict.fromkeys(("seconds", "ridge"), float("nan")) | {"bound": "memory"},
    },
}


def test_a_product_from_elsewhere_earns_nothing():
    earned = {what: score("tiled_matmul", cheat) for what, cheat in PRODUCTS.items()}
    assert earned == dict.fromkeys(PRODUCTS, 0)


def test_sums_from_elsewhere_earn_nothing():
    earned = {what: score("row_sums", cheat) for what, cheat in SUMS.items()}
    assert earned == dict.fromkeys(SUMS, 0)


@pytest.mark.parametrize("exercise", NUMBERS)
def test_a_hard_coded_number_earns_nothing(exercise):
    earned = {what: score(exercise, cheat) for what, cheat in NUMBERS[exercise].items()}
    assert earned == dict.fromkeys(NUMBERS[exercise], 0)


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
