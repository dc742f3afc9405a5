"""Answers to chapter "Host and device: moving bytes" that were not earned."""

import time

import pytest
import torch
from torch._C import _DisableTorchDispatch

import gpulab
import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.cuda.device import state


@pytest.fixture(autouse=True, params=["off", pytest.param("virtual:H100", marks=pytest.mark.audit)])
def runtime(request):
    """A learner's card may be on or off when the hidden tests begin."""
    with gpulab.cuda.use(request.param, quiet=True):
        yield


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"transfers.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


# E5.1 overlapped ---------------------------------------------------------------------------


def double_buffered(batches, step, pinned=None, read=None, make=None):
    """A right answer; ``pinned``, ``make`` and ``read``: how a cheat page-locks, sends and fetches."""
    compute, copies = torch.cuda.current_stream(), torch.cuda.Stream()
    hosts, used, results = [], [], []
    for i, batch in enumerate(batches):
        if i >= 2:
            used[i - 2].synchronize()
        if pinned is None and i < 2:
            hosts.append(torch.empty(batch.shape, dtype=batch.dtype, pin_memory=True))
        host = pinned(batch) if pinned else hosts[i % 2][: len(batch)].copy_(batch)
        with torch.cuda.stream(copies):
            x = make(host) if make else host.to("cuda", non_blocking=True)
        compute.wait_stream(copies)
        x.record_stream(compute)
        result = step(x)
        results.append(read(result) if read else result)
        used.append(compute.record_event())
    return results if read else [result.cpu() for result in results]


def test_the_cheats_start_from_a_right_answer():
    assert score("overlapped", double_buffered) == 13


def pinned_past_the_dispatcher(batch):
    """A copy in page-locked memory that no instrument saw being made."""
    guard = _DisableTorchDispatch()
    try:
        return batch.pin_memory()
    finally:
        del guard


def pinned_by_decree(batch):
    """The pageable batch itself, entered in the card's list of page-locked memory."""
    return state.device_on().pinned.pin(batch)


@pytest.mark.parametrize("pinned", [pinned_past_the_dispatcher, pinned_by_decree])
def test_page_locked_memory_that_is_hidden_is_counted(pinned):
    """And making it takes the host so long that copies and steps take turns. A second call has none of its own by decree."""
    assert score("overlapped", lambda batches, step: double_buffered(batches, step, pinned)) == 7


def refilled_by_numpy(batches, step, waits):
    """One buffer, taken as memory once and written to where no operation is seen; it ``waits`` for its last copy, or not."""
    boxes, sent = [], []

    def pinned(batch):
        if not boxes:
            made = torch.empty(batch.shape, dtype=batch.dtype, pin_memory=True)
            boxes.append((made, memoryview(made.view(torch.uint8).numpy().reshape(-1))))
        if waits and sent:
            sent[-1].synchronize()
        made, shown = boxes[0]
        data = batch.contiguous().view(torch.uint8).numpy().tobytes()
        made[:0].zero_()  # an operation that writes nothing
        shown[: len(data)] = data
        return made[: len(batch)]

    def make(host):
        x = host.to("cuda", non_blocking=True)
        sent.append(torch.cuda.current_stream().record_event())
        return x

    return double_buffered(batches, step, pinned, make=make)


def races(waits) -> bool:
    name = "transfers.overlapped"
    function = lambda batches, step: refilled_by_numpy(batches, step, waits)
    verdict = judge_here(name, lambda inputs: run_case(name, {"overlapped": function}, inputs), Sampler(7))
    return any(line.criterion == "races" and line.status == "lost" for line in verdict.lines)


def test_page_locked_memory_that_numpy_writes_to_while_it_is_read_races():
    assert races(waits=False) and not races(waits=True)


def test_a_peak_that_is_reset_is_no_small_peak():
    def all_at_once(batches, step):
        there = [batch.pin_memory().to("cuda", non_blocking=True) for batch in batches]
        results = [step(there.pop(0)) for _ in range(len(there))]
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        here = torch.empty(250, 1000, device="cuda") + 0  # a peak of about three batches
        here = here * 2
        return [result.cpu() for result in results]

    assert score("overlapped", all_at_once) == score("overlapped", copies_everything_first)


def copies_everything_first(batches, step):
    there = [batch.pin_memory().to("cuda", non_blocking=True) for batch in batches]
    return [result.cpu() for result in [step(x) for x in there]]


def test_the_hosts_clock_does_not_move_the_devices():
    clocks = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "time", "monotonic")}

    def one_after_the_other(batches, step):
        vars(time).update(dict.fromkeys(clocks, lambda: 0))
        return [step(batch.to("cuda")).cpu() for batch in batches]

    fast = score("overlapped", one_after_the_other)
    vars(time).update(clocks)
    assert fast == score("overlapped", lambda batches, step: [step(batch.to("cuda")).cpu() for batch in batches])


def test_work_under_an_observation_of_its_own_is_still_seen():
    def overlapped(batches, step):
        with gpulab.observe():
            return copies_everything_first(batches, step)

    assert score("overlapped", overlapped) == score("overlapped", copies_everything_first)


def test_the_loop_as_it_was_earns_its_values_alone():
    assert score("overlapped", lambda batches, step: [step(batch.cuda()).cpu() for batch in batches]) == 2


# E5.2 transfer_time ------------------------------------------------------------------------


# E5.3 move_to ------------------------------------------------------------------------------


def mapped(obj, change):
    """The nesting with every tensor changed once, containers kept."""
    if isinstance(obj, (torch.Tensor, torch.nn.Module)):
        return change(obj)
    if isinstance(obj, dict):
        return type(obj)((key, mapped(value, change)) for key, value in obj.items())
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(mapped(item, change) for item in obj))
    return type(obj)(mapped(item, change) for item in obj) if isinstance(obj, (list, tuple)) else obj


def moved_by(change):
    """``move_to`` with another way of moving a tensor."""

    def move_to(obj, device, non_blocking=False):
        known = {}

        def once(item):
            if id(item) not in known:
                known[id(item)] = change(item)
            return known[id(item)]

        return mapped(obj, once)

    return move_to


def test_moving_what_the_cheats_only_claim_to_move_earns_everything():
    def move_to(obj, device, non_blocking=False):
        return moved_by(lambda item: item.to(device, non_blocking=non_blocking))(obj, device)

    assert score("move_to", move_to) == 10


# All of them -------------------------------------------------------------------------------


def test_the_learners_tensors_outlive_the_hidden_tests_on_the_same_card():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        mine = torch.ones(3, device="cuda")
        score("overlapped", lambda batches, step: [])
        assert mine.sum().item() == 3


def test_hidden_inputs_are_never_the_same_twice():
    for exercise in ("overlapped", "transfer_time", "move_to"):
        name, seen = f"transfers.{exercise}", []
        for _ in range(2):
            judge_here(name, lambda data: seen.append(data) or run_case(name, {}, data))
        half = len(seen) // 2
        assert sum(a != b for a, b in zip(seen[:half], seen[half:], strict=True)) >= half - 2, exercise
