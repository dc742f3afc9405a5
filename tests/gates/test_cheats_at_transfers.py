"""Answers to chapter "Host and device: moving bytes" that were not earned."""

import ctypes
import time
from collections import OrderedDict

import pytest
import torch
from torch._C import _DisableTorchDispatch

import gpulab
import gpulab.cuda
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here, score_here
from autograder.runner.scenario_runner import run_case
from gpulab.cuda.device import state
from gpulab.cuda.device.tensor import CudaTensor
from tests.gates.threads import in_a_thread


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


def inside_of(step, name):
    """What ``step`` has closed over."""
    return step.__closure__[step.__code__.co_freevars.index(name)].cell_contents


def worked_on_the_host(batches, step):
    """The step's own arithmetic on the CPU, and its list of calls filled in by hand."""
    weight = inside_of(step, "weight").cpu()
    results = []
    for batch in batches:
        inside_of(step, "calls").append(len(batch))
        results.append((batch * weight).sum(1) + 1)
    return results


def peeked(result):
    """The result's bytes from where the virtual card keeps them: no copy and no wait."""
    values = (ctypes.c_char * result.nbytes).from_address(result.data_ptr())
    return torch.frombuffer(bytearray(values), dtype=result.dtype)


def past_the_dispatcher(result):
    guard = _DisableTorchDispatch()
    try:
        return torch.Tensor._make_subclass(torch.Tensor, result).clone()
    finally:
        del guard


def switched_off(batches, step):
    results = double_buffered(batches, step)
    gpulab.cuda.use("off", quiet=True)
    return results


def remembered(batches, step, kept={}):
    return kept.setdefault("results", double_buffered(batches, step))


OVERLAPPED = {
    "nothing": lambda batches, step: [],
    "zeros": lambda batches, step: [torch.zeros(len(batch)) for batch in batches],
    "calls without results": lambda batches, step: [step(batch.cuda()) and None for batch in batches],
    "steps on empty tensors": lambda batches, step: [
        step(torch.empty(len(b), 0, device="cuda")).cpu() for b in batches
    ],
    "everything on the host": worked_on_the_host,
    "called a device tensor": lambda batches, step: double_buffered(batches, step, make=CudaTensor.tag),
    "results peeked at": lambda batches, step: double_buffered(batches, step, read=peeked),
    "results fetched past the dispatcher": lambda batches, step: double_buffered(
        batches, step, read=past_the_dispatcher
    ),
    "card switched off": switched_off,
    "another thread": lambda batches, step: in_a_thread(lambda: double_buffered(batches, step)),
    "what the first call returned": remembered,
}


def test_the_cheats_start_from_a_right_answer():
    assert score("overlapped", double_buffered) == 13


@pytest.mark.parametrize("cheat", OVERLAPPED.values(), ids=list(OVERLAPPED))
def test_a_cheat_at_overlapped_earns_nothing(cheat):
    assert score("overlapped", cheat) == 0


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


class Agreeable(float):
    """A number that is as large as one likes."""

    __eq__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0.0


def refuse(*question):
    raise ValueError


TIMES = {
    "a guess": lambda nbytes, link, messages=1: 1e-3,
    "agreeable": lambda nbytes, link, messages=1: Agreeable(1),
    "infinite": lambda nbytes, link, messages=1: float("inf"),
    "not a number": lambda nbytes, link, messages=1: float("nan"),
    "a tensor": lambda nbytes, link, messages=1: torch.tensor(1.0),
    "everything refused": refuse,
    "the question": lambda nbytes, link, messages=1: link,
}


def test_a_cheat_at_transfer_time_earns_nothing():
    assert {what: score("transfer_time", cheat) for what, cheat in TIMES.items()} == dict.fromkeys(TIMES, 0)


# E5.3 move_to ------------------------------------------------------------------------------


class Claims(torch.Tensor):
    """A host tensor that says it is on a device."""

    is_cuda = property(lambda self: True)


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


def claimed(item):
    return item if isinstance(item, torch.nn.Module) or item.is_cuda else item.as_subclass(Claims)


def tagged(item):
    """Called a device tensor, the storage still the host's."""
    if not isinstance(item, torch.nn.Module):
        return CudaTensor.tag(item)
    for part in item.modules():
        for name, parameter in list(part._parameters.items()):
            part._parameters[name] = torch.nn.Parameter(CudaTensor.tag(parameter.detach()))
        for name, buffer in list(part._buffers.items()):
            part._buffers[name] = CudaTensor.tag(buffer)
    return item


def decoy(item):
    """Copies, throws the copy away and hands out the host's tensor."""
    if isinstance(item, torch.nn.Module) or item.is_cuda:
        return item
    item.to("cuda")
    return item.as_subclass(Claims)


def put_back(obj, device, non_blocking=False):
    there = moved_by(lambda item: item.to(device, non_blocking=non_blocking))(obj, device)
    gpulab.cuda.use("off", quiet=True)
    return there


MOVES = {
    "nothing": lambda obj, device, non_blocking=False: None,
    "as it is": lambda obj, device, non_blocking=False: obj,
    "empty containers": lambda obj, device, non_blocking=False: OrderedDict(),
    "host tensors that claim a device": moved_by(claimed),
    "host memory called the device's": moved_by(tagged),
    "a copy for show": moved_by(decoy),
    "on the meta device": moved_by(lambda item: item.to("meta")),
    "card switched off": put_back,
}


@pytest.mark.parametrize("cheat", MOVES.values(), ids=list(MOVES))
def test_a_cheat_at_move_to_earns_nothing(cheat):
    assert score("move_to", cheat) == 0


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
