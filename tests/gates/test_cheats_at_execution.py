"""Answers to chapter "The CUDA execution model" that were not earned."""

from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch

import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from exercises.execution.divergence_cost.judge import cost
from exercises.execution.occupancy.judge import resident
from exercises.execution.regroup import run as regroup
from exercises.execution.regroup.judge import splits
from gpulab import Observation
from gpulab.cards.multiprocessors import MULTIPROCESSORS
from gpulab.kernels import cuda
from gpulab.kernels.simt.occupancy import occupancy
from gpulab.observe import device
from tests.book.test_claims_execution import branch, in_branches, launched


@pytest.fixture(autouse=True, params=["off", "virtual:H100"])
def runtime(request):
    """A learner's card may be on or off when the hidden tests begin."""
    with gpulab.cuda.use(request.param, quiet=True):
        yield


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def wasteful(a, b, out):
    """The sum, by every thread: elements read and written again and again."""
    for i in range(out.size):
        out[i] = a[i] + b[i]


@cuda.jit
def scale(image, gain, out):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = image[y, x] * gain[x]


def blocks(n, threads):
    return max(1, -(-n // threads))


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"execution.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


def test_the_same_kernels_used_honestly_earn_everything():
    def add_vectors(a, b, out, threads):
        if len(out):
            add[blocks(len(out), threads), threads](a, b, out)

    def shade(image, gain, out, block):
        scale[(-(-out.shape[1] // block[0]), -(-out.shape[0] // block[1])), block](image, gain, out)

    assert score("add_vectors", add_vectors) == 7 and score("shade", shade) == 7


def test_a_launch_record_that_was_swapped_for_a_better_one_earns_nothing():
    def add_vectors(a, b, out, threads):
        with gpulab.observe() as seen:
            add[blocks(len(out), threads), threads](a, b, torch.empty_like(out))
        device._logs[-1].kernels.clear()
        wasteful[1, 1](a, b, out)
        device._logs[-1].launches[:] = seen.launches

    assert score("add_vectors", add_vectors) == 0


def test_counts_that_were_edited_disagree_with_the_devices_own():
    def shade(image, gain, out, block):
        scale[(16, 16), block](image, gain, out)
        (launch,) = device._logs[-1].launches
        better = tuple(replace(line, read_sectors=0, written_sectors=0) for line in launch.lines)
        device._logs[-1].launches[:] = [replace(launch, lines=better)]

    assert score("shade", shade) == 0


def test_two_launches_do_not_count_as_one():
    def add_vectors(a, b, out, threads):
        for _ in range(2):
            add[blocks(len(out), threads), threads](a, b, out)

    assert score("add_vectors", add_vectors) == 0


def test_hidden_inputs_are_never_the_same_twice():
    for exercise in ("add_vectors", "shade", "divergence_cost", "regroup", "occupancy"):
        name, seen = f"execution.{exercise}", []
        for _ in range(2):
            judge_here(name, lambda data: seen.append(data) or run_case(name, {}, data))
        half = len(seen) // 2
        pairs = list(zip(seen[:half], seen[half:]))
        assert len(seen) == 2 * half and sum(a != b for a, b in pairs) >= half - 1, exercise


def test_the_judges_splits_are_what_an_interpreter_counts():
    sampler = Sampler(11)
    for _ in range(6):
        kinds = [sampler.integer(0, 3) for _ in range(32 * sampler.integer(1, 9))]
        order = sampler.permutation(range(len(kinds)))
        evidence = regroup.run(
            SimpleNamespace(regroup=lambda kinds: order), {"kinds": kinds, "turns": [1, 1, 1, 1], "threads": 64}
        )
        assert (
            Observation.from_dict(evidence["seen"]).launches[0].total("divergent_branches") == splits(order, kinds) > 0
        )


def test_the_judges_cost_is_what_an_interpreter_counts():
    sampler = Sampler(11)
    for _ in range(12):
        n, threads = sampler.integer(1, 300), sampler.integer(1, 200)
        kinds = torch.tensor([sampler.integer(0, 1) for _ in range(n)])
        padded = torch.full((blocks(n, threads) * threads,), 1)
        padded[:n] = kinds
        launch = launched(branch, blocks(n, threads), threads, padded, torch.empty(len(padded)))
        assert in_branches(launch) == cost(padded.tolist(), [21, 21], threads)


def instrument(threads, registers, shared_bytes, sm):
    try:
        return occupancy(threads, registers, shared_bytes, sm).blocks
    except ValueError:  # not even one block fits
        return 0


def test_the_judges_limits_are_those_of_the_instrument():
    sampler = Sampler(12)
    for sm in MULTIPROCESSORS.values():
        for _ in range(100):
            launch = sampler.integer(1, 1024), sampler.integer(16, 255), sampler.integer(1, 40_000)
            assert min(resident(*launch, asdict(sm)).values()) == instrument(*launch, sm), launch
