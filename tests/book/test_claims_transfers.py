"""Tests that settle the claims of the chapter "Host and device: moving bytes", one per claim."""

import threading
import warnings

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpulab
import gpulab.cuda
from gpulab.cards.constants import PAGEABLE_BYTES_PER_S
from gpulab.cuda import CARDS
from gpulab.published import measurement


@pytest.fixture
def card():
    with gpulab.cuda.use("virtual:H100", quiet=True):
        yield


def policy():
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))


def test_a_module_moves_its_buffers_too_and_stays_the_same_object(card):
    model = policy()
    held = list(model.parameters())
    with gpulab.observe() as seen:
        moved = model.to("cuda")
    tensors = model.state_dict()
    assert moved is model and all(a is b for a, b in zip(held, model.parameters(), strict=True))
    assert len(tensors) > len(held) and all(tensor.is_cuda for tensor in tensors.values())
    assert [copy.kind for copy in seen.copies] == ["HtoD"] * len(tensors)


def test_to_returns_a_tensor_that_is_there_itself(card):
    there = torch.ones(1000, device="cuda")
    with gpulab.observe() as seen:
        assert there.to("cuda") is there
        assert there.to(there.device, there.dtype) is there
    assert not seen.copies


def test_to_returns_a_tensor_that_is_on_the_host_itself():
    host = torch.ones(1000)
    assert host.to("cpu") is host and host.to(host.device, host.dtype) is host
    assert host.to(torch.float64) is not host and host.to("cpu", copy=True) is not host


def test_pinned_memory_is_not_the_arguments_name():
    with pytest.raises(TypeError, match="pinned_memory"):
        DataLoader(TensorDataset(torch.ones(2)), pinned_memory=True)
    with pytest.raises(TypeError, match="pinned_memory"):
        torch.empty(2, pinned_memory=True)


def test_the_pinning_thread_copies_what_a_worker_made(card):
    from torch.utils.data._utils.pin_memory import pin_memory

    batch = {"image": torch.rand(16, 16), "label": torch.arange(16)}
    with gpulab.observe() as seen:
        pinned = pin_memory(batch)
    for name, tensor in batch.items():
        assert pinned[name].is_pinned() and not tensor.is_pinned()
        assert not gpulab.shares_storage(pinned[name], tensor)
    assert seen.copied_bytes == sum(tensor.nbytes for tensor in batch.values())


class Batch(list):
    def pin_memory(self):
        self.pinned_by = threading.current_thread()
        return self


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_without_workers_pins_in_the_thread_that_asks(card, workers):
    (batch,) = DataLoader(range(4), batch_size=4, num_workers=workers, pin_memory=True, collate_fn=Batch)
    assert (batch.pinned_by is threading.current_thread()) == (workers == 0)


def test_without_an_accelerator_pin_memory_warns_and_pins_nothing(monkeypatch):
    gpulab.cuda.use("off", quiet=True)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (batch,) = next(iter(DataLoader(TensorDataset(torch.ones(4)), batch_size=4, pin_memory=True)))
    assert any("no accelerator is found" in str(warning.message) for warning in caught)
    assert batch.data_ptr() and not (torch.cuda.is_available() and batch.is_pinned())


def overlap(seen):
    return sum(
        max(0.0, min(copy.end_us, kernel.end_us) - max(copy.start_us, kernel.start_us))
        for copy in seen.copies
        for kernel in seen.kernels
    )


def run(batches, copies, **options):
    """Copy each batch on the stream ``copies`` and compute on the current one, watched."""
    compute = torch.cuda.current_stream()
    with gpulab.observe() as seen:
        for batch in batches:
            with torch.cuda.stream(copies):
                x = batch.to("cuda", **options)
            compute.wait_stream(copies)
            x.record_stream(compute)
            for _ in range(20):
                x = x * 1.01
    torch.cuda.synchronize()
    assert seen.kernels and not seen.races
    return seen


def test_pinned_and_non_blocking_free_the_host_and_overlap_no_kernel_of_the_same_stream(card):
    batches = [torch.ones(1024, 1024).pin_memory() for _ in range(3)]
    one = run(batches, torch.cuda.current_stream(), non_blocking=True)
    assert not one.waits and overlap(one) == 0
    side = run(batches, torch.cuda.Stream(), non_blocking=True)
    assert not side.waits and overlap(side) > 0


def test_non_blocking_does_not_free_the_host_from_pageable_memory(card):
    batch = torch.ones(1024, 1024)
    seen = run([batch], torch.cuda.Stream(), non_blocking=True)
    (copy,) = seen.copies
    staged = max(wait.end_us for wait in seen.waits)
    assert not copy.pinned
    assert staged - copy.start_us == pytest.approx(batch.nbytes / PAGEABLE_BYTES_PER_S * 1e6)
    assert staged < copy.end_us, "PyTorch leaves out its own wait"


def test_a_small_copy_from_pageable_memory_returns_at_once_without_blocking(card):
    waits = {}
    for nbytes in (64 * 1024, 64 * 1024 + 1):
        torch.cuda._sleep(1_000_000)
        with gpulab.observe() as seen:
            torch.ones(nbytes, dtype=torch.uint8).to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        waits[nbytes] = len(seen.waits)
    assert list(waits.values()) == [0, 1]


def test_a_blocking_copy_converts_on_the_host_and_another_on_the_device(card):
    frames = torch.ones(1024, dtype=torch.uint8)
    sent = {}
    for non_blocking in (False, True):
        with gpulab.observe() as seen:
            frames.to("cuda", torch.float32, non_blocking=non_blocking)
        (sent[non_blocking],) = (copy.bytes for copy in seen.copies if copy.kind == "HtoD")
    assert sent == {False: 4096, True: 1024}


def test_the_published_gain_of_pinned_copies_is_what_the_page_says():
    gains = [
        measurement(f"bwtest-{machine}-{way}-pinned").value / measurement(f"bwtest-{machine}-{way}-pageable").value
        for machine in ("dgxa100", "dell")
        for way in ("h2d", "d2h")
    ]
    assert (round(min(gains), 1), round(max(gains), 1)) == (2.4, 5.2)


def copy_us(batch):
    with gpulab.observe() as seen:
        batch.to("cuda")
    (copy,) = seen.copies
    return copy.end_us - copy.start_us


def loop_us(batches, step_us):
    """From the first copy to the last kernel: each batch is copied and then stepped on, in one stream."""
    torch.cuda.synchronize()
    with gpulab.observe() as seen:
        for batch in batches:
            batch.to("cuda")
            torch.cuda._sleep(int(step_us * CARDS["H100"].clock_hz / 1e6))
    torch.cuda.synchronize()
    return max(kernel.end_us for kernel in seen.kernels) - seen.copies[0].start_us


@pytest.mark.parametrize(("kbytes", "at_least", "at_most"), [(4, 1.0, 1.5), (4096, 1.5, 10.0)])
def test_how_much_faster_a_pinned_copy_is_depends_on_its_size(card, kbytes, at_least, at_most):
    batch = torch.ones(256 * kbytes)
    assert at_least < copy_us(batch) / copy_us(batch.pin_memory()) < at_most


def test_what_training_gains_is_bounded_by_the_share_of_its_time_that_copies_take(card):
    pageable, gains = [torch.ones(1024, 1024) for _ in range(4)], []
    pinned = [batch.pin_memory() for batch in pageable]
    for step_us in (50, 500, 5_000, 50_000):
        slow, fast = loop_us(pageable, step_us), loop_us(pinned, step_us)
        assert fast < slow < fast + sum(map(copy_us, pageable))
        gains.append(1 - fast / slow)
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0.10 and gains[-1] < 0.05, "neither end is the 5 to 10 % of the claim"


def test_a_non_blocking_copy_to_the_host_is_not_there_when_the_call_returns(card):
    there = torch.ones(8, device="cuda")
    with gpulab.observe() as seen:
        late = there.to("cpu", non_blocking=True)
        early = late.clone()
    assert not early.any() and [race.kind for race in seen.races] == ["read after write"]
    torch.cuda.synchronize()
    assert late.eq(1).all()
