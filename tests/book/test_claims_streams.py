"""Tests that settle the claims of the chapter "Asynchronous execution", one per claim."""

import time

import pytest
import torch

import gpulab.cuda
from gpulab import observe


@pytest.fixture(autouse=True)
def virtual():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def matrix():
    return torch.ones(512, 512, device="cuda")


def host_us(call):
    begin = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - begin)


def test_a_call_returns_before_its_kernel_has_ended():
    torch.cuda._sleep(1_000_000)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream().query()


@pytest.mark.parametrize(
    "read", [lambda x: x.sum().item(), torch.nonzero, lambda x: x[x > 0], lambda x: 1 if x.max() > 0 else 0]
)
def test_a_model_that_reads_a_value_returns_after_its_kernels(read):
    x = matrix()

    def model(x):
        torch.cuda._sleep(1_000_000)
        return read(x)

    def writes_only(x):
        torch.cuda._sleep(1_000_000)
        return torch.where(x > 0, x, 0)

    writes_only(x)
    torch.cuda.synchronize()
    assert host_us(lambda: writes_only(x)) < 100
    torch.cuda.synchronize()
    assert host_us(lambda: model(x)) > 500


def test_an_unsynchronised_time_is_that_of_the_launch_and_the_first_of_an_allocation_too():
    x = torch.ones(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    times = []
    with observe() as seen:
        for _ in range(2):
            times.append(host_us(lambda: x @ x))
    product = seen.kernels[-1].end_us - seen.kernels[-1].start_us
    assert times[1] < times[0] < product and times[1] < product / 10


def test_two_waits_time_the_kernel_and_a_few_microseconds_of_launch():
    x = torch.ones(1024, 1024, device="cuda")
    x @ x
    torch.cuda.synchronize()
    with observe() as seen:
        waited = host_us(lambda: (x @ x, torch.cuda.synchronize()))
    product = seen.kernels[0].end_us - seen.kernels[0].start_us
    assert product < waited < product + 20


def between_events(call, spin):
    """Microseconds between two marks with ``call`` between them, behind a spin of so many cycles."""
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(spin)
    first.record()
    call()
    second.record()
    second.synchronize()
    return 1e3 * first.elapsed_time(second)


def test_events_time_a_short_kernel_only_while_the_device_is_behind_the_host():
    x = torch.ones(16, 16, device="cuda")
    x @ x
    torch.cuda.synchronize()
    with observe() as seen:
        idle, busy = (between_events(lambda: x @ x, spin) for spin in (0, 200_000))
    kernel = seen.kernels[-1]
    assert busy == pytest.approx(kernel.end_us - kernel.start_us)
    assert idle > 2 * busy


def write_fresh_memory(wait):
    """A side stream fills memory that a tensor of this stream has just left."""
    side, here = torch.cuda.Stream(), torch.cuda.current_stream()
    with observe() as seen:
        old = matrix()
        kept = old * 2
        del old
        fresh = torch.empty(512, 512, device="cuda")
        if wait:
            side.wait_stream(here)
        with torch.cuda.stream(side):
            fresh.fill_(7)
        fresh.record_stream(side)
    torch.cuda.synchronize()
    return seen, kept


def test_writing_fresh_memory_on_a_side_stream_races_with_its_former_owner_and_a_wait_repairs_it():
    raced, repaired = (write_fresh_memory(wait)[0].races for wait in (False, True))
    assert raced and all(race.reuse for race in raced) and not repaired


def two_models(repair):
    """The notes' sample, with inputs that the default stream has just written."""
    s1, s2, here = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    raw, weight = torch.ones(8, 16, device="cuda"), torch.ones(16, 16, device="cuda")
    torch.cuda.synchronize()
    outputs = []
    with observe() as seen:
        inputs = [raw * 2, raw * 3]
        for stream, x in zip((s1, s2), inputs):
            if repair:
                stream.wait_stream(here)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1_000_000)
                outputs.append(x @ weight)
        if repair:
            for stream in (s1, s2):
                here.wait_stream(stream)
            outputs[0] + outputs[1]
        else:
            torch.cuda.synchronize()
    return seen


def test_the_two_stream_sample_races_and_two_waits_repair_it():
    assert [race.kind for race in two_models(repair=False).races] == ["read after write"] * 2
    repaired = two_models(repair=True)
    one, two = (kernel for kernel in repaired.kernels if kernel.name == "spin_kernel")
    assert repaired.races == repaired.waits == () and two.start_us < one.end_us
