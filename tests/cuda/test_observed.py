"""What an Observation holds on either runtime: the same assertions where a GPU is at hand."""

import pytest
import torch

from gpulab import observe

N = 256


@pytest.fixture(autouse=True)
def _initialised(cuda):
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()


def test_a_product_is_a_kernel_on_the_default_stream_with_its_line():
    a = torch.ones(N, N, device="cuda")
    with observe() as seen:
        a @ a  # the product
    assert len(seen.kernels) >= 1
    kernel = seen.kernels[0]
    assert kernel.stream == 0 and kernel.end_us > kernel.start_us and "# the product" in kernel.line.text


def test_a_view_launches_nothing():
    a = torch.ones(N, N, device="cuda")
    with observe() as seen:
        a.t()[1:]
    assert seen.kernels == () and [op.device for op in seen.ops] == ["cuda:0"] * len(seen.ops)


def test_copies_have_direction_bytes_and_kind_of_host_memory():
    pageable, pinned = torch.ones(N), torch.ones(N).pin_memory()
    with observe() as seen:
        x = pageable.to("cuda")
        pinned.to("cuda", non_blocking=True)
        x.cpu()
    copies = [(c.kind, c.pinned, c.bytes) for c in seen.copies if c.kind in ("HtoD", "DtoH")]
    assert copies == [("HtoD", False, 4 * N), ("HtoD", True, 4 * N), ("DtoH", False, 4 * N)]


def test_a_read_of_a_value_and_a_synchronisation_are_waits_with_their_lines():
    a = torch.ones(N, N, device="cuda")
    with observe() as seen:
        a.sum().item()  # hidden
        torch.cuda.synchronize()  # asked for
    hidden, asked = seen.waits
    assert hidden.reason == "aten._local_scalar_dense" and "# hidden" in hidden.line.text
    assert asked.reason == "cudaDeviceSynchronize" and "# asked for" in asked.line.text


def test_a_pinned_copy_that_does_not_block_is_no_wait():
    pinned = torch.ones(N).pin_memory()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
    assert seen.waits == ()


def test_kernels_of_a_side_stream_carry_its_number():
    a, side = torch.ones(N, N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        with torch.cuda.stream(side):
            a @ a
    assert {k.stream for k in seen.kernels} == {side.stream_id}


def written_and_read(wait):
    x, side = torch.ones(N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        x.add_(1)  # written
        wait(side)
        with torch.cuda.stream(side):
            x.mul(2)  # read
    return seen


def test_streams_that_nothing_orders_race():
    (race,) = written_and_read(lambda side: None).races
    assert race.kind == "read after write" and race.first_stream == 0 and race.second_stream != 0
    assert "# written" in race.first_line.text and "# read" in race.second_line.text


ORDERED = {
    "wait_stream": lambda side: side.wait_stream(torch.cuda.current_stream()),
    "wait_event": lambda side: side.wait_event(torch.cuda.current_stream().record_event()),
    "device": lambda side: torch.cuda.synchronize(),
    "stream": lambda side: torch.cuda.current_stream().synchronize(),
    "event": lambda side: torch.cuda.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("how", ORDERED)
def test_streams_that_are_ordered_do_not_race(how):
    assert written_and_read(ORDERED[how]).races == ()


def test_new_bytes_and_the_peak_are_those_of_the_storages():
    a = torch.ones(N, N, device="cuda")
    with observe() as seen:
        b = a + 1
        b = b * 2
    assert seen.new_bytes == 2 * N * N * 4 == seen.peak_bytes and b.is_cuda


def test_plain_data_and_back():
    from gpulab import Observation

    seen = written_and_read(lambda side: None)
    assert Observation.from_dict(seen.to_dict()).to_dict() == seen.to_dict()
