"""Answers to chapter "The CUDA execution model" that were not earned."""

import ctypes
import threading
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
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
def fetch(ready, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = ready[i]


@cuda.jit
def first(ready, other, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = ready[i] + 0 * other[i]


@cuda.jit
def nothing(a, b, out):
    i = cuda.grid(1)  # noqa: F841


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


@cuda.jit
def first_of(ready, gain, out):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = ready[y, x] + 0 * gain[x]


def blocks(n, threads):
    return max(1, -(-n // threads))


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def by_address(a, b, out):
    """Writes the sum into the memory of ``out`` where no instrument is."""
    values = (a.cpu() + b.cpu()).contiguous()
    ctypes.memmove(out.untyped_storage().data_ptr(), values.data_ptr(), values.nbytes)


def on_the_host(tensor):
    """The tensor's values where the virtual card keeps them, as NumPy sees them."""
    data = (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())
    return np.frombuffer(data, np.float32).reshape(tensor.shape)


def fetched_from(source):
    """The sum from NumPy, at a place where a kernel then fetches it."""

    def add_vectors(a, b, out, threads):
        if len(out):
            fetch[blocks(len(out), threads), threads](source(on_the_host(a) + on_the_host(b)), out)

    return add_vectors


def put_down_by_hand(values):
    tensor = torch.empty(values.shape, device="cuda")
    on_the_host(tensor)[:] = values
    return tensor


def input_swapped(a, b, out, threads):
    """The sum stands in ``a`` for as long as a kernel reads it."""
    if len(out):
        held = on_the_host(a)
        was = held.copy()
        held += on_the_host(b)
        first[blocks(len(out), threads), threads](a, b, out)
        held[:] = was


def result_kept(a, b, out, threads):
    """The sum is put into ``out`` by hand, and a kernel writes there what it reads there."""
    if len(out):
        on_the_host(out)[:] = on_the_host(a) + on_the_host(b)
        first[blocks(len(out), threads), threads](out, b, out)


def beside(work):
    """A launch that does nothing, and ``work``."""

    def add_vectors(a, b, out, threads):
        nothing[blocks(len(out), threads), threads](a, b, out)
        work(a, b, out)

    return add_vectors


def forged(a, b, out, threads):
    """PyTorch's sum, and the record of a launch that ran on other tensors."""
    with gpulab.observe() as seen:
        add[blocks(len(out), threads), threads](a.clone(), b.clone(), out.clone())
    out.copy_(a + b)
    device._logs[-1].launches[:] = seen.launches


def card_off(a, b, out, threads):
    gpulab.cuda.use("off", quiet=True)
    add[blocks(len(out), threads), threads](a, b, out)


ADD = {
    "PyTorch": lambda a, b, out, threads: torch.add(a, b, out=out),
    "a launch beside PyTorch": beside(lambda a, b, out: out.copy_(a + b)),
    "a launch beside NumPy": beside(lambda a, b, out: out.copy_(torch.from_numpy(a.cpu().numpy() + b.cpu().numpy()))),
    "a launch beside a pointer": beside(by_address),
    "a kernel that fetches": lambda a, b, out, threads: fetch[blocks(len(out), threads), threads](a + b, out),
    "a kernel that fetches from NumPy": fetched_from(lambda values: values),
    "a kernel that fetches what was put down by hand": fetched_from(put_down_by_hand),
    "an input swapped for a moment": input_swapped,
    "a result put down by hand and kept": result_kept,
    "a forged record": forged,
    "zeros": lambda a, b, out, threads: out.zero_(),
    "another thread": lambda a, b, out, t: in_a_thread(lambda: add[blocks(len(out), t), t](a, b, out)),
    "the card switched off": card_off,
}
SHADE = {
    "PyTorch": lambda image, gain, out, block: torch.mul(image, gain, out=out),
    "a picture of NumPy's, copied": lambda image, gain, out, block: first_of[(9, 9), block](
        on_the_host(image) * on_the_host(gain), gain, out
    ),
    "another picture": lambda image, gain, out, block: scale[(9, 9), block](image, gain, torch.empty_like(out)),
    "PyTorch over a kernel's work": lambda image, gain, out, block: (
        scale[(9, 9), block](image, gain, out),
        torch.mul(image, gain, out=out),
    ),
}


class Agreeable(int):
    """A number that equals every other."""

    __eq__ = lambda self, other: True
    __hash__ = int.__hash__


def counted(kinds, costs, threads):
    """Runs a kernel instead of predicting one."""
    kinds = torch.tensor(kinds)
    return in_branches(launched(branch, blocks(len(kinds), threads), threads, kinds, torch.empty(len(kinds))))


COST = {
    "agreeable": lambda kinds, costs, threads: Agreeable(),
    "a float": lambda kinds, costs, threads: float(cost(kinds, costs, threads)),
    "a tensor": lambda kinds, costs, threads: torch.tensor(cost(kinds, costs, threads)),
    "a launch": counted,
}


def sorted_in_place(kinds):
    kinds.sort()
    return list(range(len(kinds)))


class Sorted(list):
    """A list that claims to be another."""

    __eq__ = lambda self, other: True


REGROUP = {
    "the kinds sorted instead": sorted_in_place,
    "a list of another class": lambda kinds: Sorted(range(len(kinds))),
    "the first object, always": lambda kinds: [0] * len(kinds),
    "negative indices": lambda kinds: [j - len(kinds) for j in range(len(kinds))],
    "one object left out": lambda kinds: list(range(1, len(kinds))),
    "booleans": lambda kinds: [bool(j) for j in range(len(kinds))],
}
OCCUPANCY = {
    "the course's own": lambda threads, registers, shared, sm: (
        occupancy(threads, registers, shared, MULTIPROCESSORS[8, 0]).blocks
    ),
    "agreeable": lambda threads, registers, shared, sm: Agreeable(),
    "a float": lambda *launch: float(min(resident(*launch[:3], vars(launch[3])).values())),
    "everything refused": lambda *launch: (_ for _ in ()).throw(ValueError()),
}


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"execution.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


@pytest.mark.parametrize(
    ("exercise", "cheats"),
    [("add_vectors", ADD), ("shade", SHADE), ("divergence_cost", COST), ("regroup", REGROUP), ("occupancy", OCCUPANCY)],
)
def test_a_cheat_earns_nothing(exercise, cheats):
    scores = {what: score(exercise, cheat) for what, cheat in cheats.items()}
    assert scores == dict.fromkeys(cheats, 0)


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
