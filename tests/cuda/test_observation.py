"""``observe()`` on the virtual device: kernels, copies, waits, races, memory; the same each time."""

import json
import pathlib
import subprocess
import sys
import time
from array import array

import pytest
import torch

import gpulab
import gpulab.cuda
from gpulab import Observation, observe
from gpulab.cuda import coverage

pytestmark = pytest.mark.usefixtures("virtual")
N = 256


def here(line, text):
    return line is not None and text in line.text


def matrices():
    return torch.ones(N, N, device="cuda"), torch.ones(N, N, device="cuda")


def test_a_kernel_has_its_flops_bytes_stream_and_line():
    a, b = matrices()
    with observe() as seen:
        a @ b  # the product
    (kernel,) = seen.kernels
    assert kernel.name == "aten.mm" and kernel.stream == 0 and kernel.flops == 2 * N**3
    assert kernel.bytes_read == 2 * N * N * 4 and kernel.bytes_written == N * N * 4
    assert kernel.end_us > kernel.start_us and here(kernel.line, "# the product")


PRODUCTS = {
    "bmm": (lambda t: torch.bmm(t(2, 3, 4), t(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "addbmm": (lambda t: torch.addbmm(t(3, 5), t(2, 3, 4), t(2, 4, 5)), 2 * 2 * 3 * 4 * 5),
    "mv": (lambda t: t(3, 4) @ t(4), 2 * 3 * 4),
    "linear": (lambda t: torch.nn.functional.linear(t(2, 3), t(4, 3), t(4)), 2 * 2 * 3 * 4),
    "conv2d": (lambda t: torch.nn.functional.conv2d(t(1, 3, 8, 8), t(4, 3, 3, 3)), 2 * 36 * 4 * 27),
    "attention": (
        lambda t: torch.nn.functional.scaled_dot_product_attention(*(t(1, 2, 6, 8) for _ in range(3))),
        2 * 2 * 2 * 6 * 6 * 8,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_counts_two_flops_for_each_multiply_and_add(name):
    call, flops = PRODUCTS[name]
    tensors = {}

    def t(*shape):
        return tensors.setdefault((len(tensors), shape), torch.ones(*shape, device="cuda"))

    with observe() as seen:
        call(t)
    counted = [k for k in seen.kernels if k.name != "aten.ones"]
    assert max(k.flops for k in counted) == flops and "cpu" not in "".join(k.name for k in counted)


def test_attention_backward_counts_its_flops():
    q = torch.ones(1, 2, 64, 8, device="cuda", requires_grad=True)
    with observe() as seen:
        torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    flops = {k.name: k.flops for k in seen.kernels if "attention" in k.name}
    forward = flops["aten._scaled_dot_product_flash_attention"]
    assert flops["aten._scaled_dot_product_flash_attention_backward"] > 2 * forward > 0


def test_a_recurrent_layer_counts_its_weights_at_each_step():
    layer = torch.nn.LSTM(8, 16).cuda()
    x = torch.ones(5, 2, 8, device="cuda")
    with torch.no_grad(), observe() as seen:
        layer(x)
    assert sum(k.flops for k in seen.kernels) >= 2 * 5 * 2 * (4 * 16 * 8 + 4 * 16 * 16)


def test_a_view_is_no_kernel():
    a, _ = matrices()
    with observe() as seen:
        a.t()[1:].view(-1, 1, N)[0]
    assert seen.kernels == () and len(seen.ops) > 0


def test_an_expanded_tensor_is_read_once():
    row = torch.ones(1, N, device="cuda")
    with observe() as seen:
        row.expand(N, N).sum()
    assert seen.kernels[0].bytes_read == 4 * N


def test_copies_between_host_and_device_are_named():
    pageable, pinned = torch.ones(N), torch.ones(N).pin_memory()
    with observe() as seen:
        x = pageable.cuda()
        pinned.to("cuda", non_blocking=True)
        x.cpu()  # back
    copies = [(c.kind, c.pinned, c.bytes, c.stream) for c in seen.copies]
    assert copies == [("HtoD", False, 4 * N, 0), ("HtoD", True, 4 * N, 0), ("DtoH", False, 4 * N, 0)]
    assert here(seen.copies[2].line, "# back")


def test_a_wait_has_its_line_and_its_reason():
    a, b = matrices()
    with observe() as seen:
        (a @ b).sum().item()  # hidden
        torch.cuda.synchronize()
    assert [w.reason for w in seen.waits] == ["aten._local_scalar_dense", "cudaDeviceSynchronize"]
    assert here(seen.waits[0].line, "# hidden") and seen.waits[0].us > 0


READS = {
    "item": torch.ops.aten.item,
    "prims": torch.ops.prims.item,
    "a typed constructor": lambda x: torch.DoubleTensor([x])[0],
    "torch.Tensor": lambda x: torch.Tensor([x])[0],
    "an array": lambda x: array("d", [x])[0],
    "a transform": lambda x: inside_grad(x.expand(1), lambda y: y.tolist())[0],
    "a list in a transform": lambda x: inside_grad(x.expand(1), lambda y: torch.tensor([y[0]]).tolist())[0],
    "a constructor in a transform": lambda x: inside_grad(x.expand(1), lambda y: torch.FloatTensor([y[0]]).tolist())[0],
    "a check": lambda x: (torch.normal(0.0, x), 2)[1],
}


def inside_grad(x, read):
    found = []
    torch.func.grad(lambda y: (found.extend(read(y)), y.sum())[1])(x)
    return found


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_who_reads_an_element_waits_for_it_whatever_it_is_called(read):
    x = torch.ones(()).cuda() + 1
    torch.cuda.synchronize()
    with observe() as seen:
        assert read(x) == 2
    assert len(seen.waits) == 1 and [copy.kind for copy in seen.copies] == ["DtoH"]


FAILS = {
    "a negative spread": lambda: torch.normal(0.0, -torch.ones(3).cuda()),
    "a singular matrix": lambda: torch.linalg.inv(torch.zeros(2, 2).cuda()),
    "a negative count": lambda: torch.bincount(torch.full((3,), -1).cuda()),
    "too many repeats": lambda: torch.repeat_interleave(torch.ones(3, dtype=torch.int64).cuda(), output_size=0),
    "a negative repeat": lambda: torch.repeat_interleave(torch.full((3,), -1).cuda()),
}


@pytest.mark.parametrize("fails", FAILS.values(), ids=FAILS)
def test_an_error_of_a_value_tells_that_value_and_was_waited_for(fails):
    with observe() as seen, pytest.raises(RuntimeError):
        fails()
    assert len(seen.waits) == 2  # the upload, and the check


@pytest.mark.parametrize("fails", [lambda a: a @ a[:3], lambda a: torch.cat([a, a[0]])])
def test_an_error_of_shapes_tells_no_value(fails):
    a, _ = matrices()
    with observe() as seen, pytest.raises(RuntimeError):
        fails(a)
    assert seen.waits == ()


def test_places_to_split_at_lie_on_the_host():
    with pytest.raises(RuntimeError, match="to be on cpu, but it's on cuda:0"):
        torch.ones(9).cuda().tensor_split(torch.tensor([2]).cuda())


def test_the_card_is_not_switched_while_it_is_observed():
    with observe() as seen, pytest.raises(RuntimeError, match="cannot be switched inside observe"):
        gpulab.cuda.use("virtual:A100", quiet=True)
    assert seen.waits == () and gpulab.cuda.current() == "virtual:H100"


def test_a_host_tensor_cannot_be_set_to_memory_of_the_card():
    x = torch.ones(3).cuda()
    for source in (x, x.untyped_storage(), x.storage()):
        with pytest.raises(RuntimeError, match="to a storage on different device"):
            torch.empty(0).set_(source)
    with pytest.raises(RuntimeError, match="to a storage on different device"):
        x.set_(torch.ones(3).untyped_storage())


def test_who_asks_until_the_answer_is_yes_waits_once():
    with observe() as seen:
        torch.cuda._sleep(10**6)
        done = torch.cuda.current_stream().record_event()
        while not done.query():  # again
            pass
    assert [wait.reason for wait in seen.waits] == ["polling"] and here(seen.waits[0].line, "# again")
    assert seen.waits[0].us > 100


def test_who_asks_now_and_then_and_works_meanwhile_does_not_wait():
    x = torch.ones(N, N).cuda()
    with observe() as seen:
        torch.cuda._sleep(10**4)
        done = torch.cuda.current_stream().record_event()
        while not done.query():
            x @ x
    assert seen.waits == ()


def test_what_comes_back_into_pinned_memory_is_seen_by_the_next_copy_and_not_yet_by_the_host():
    x, pinned = torch.full((3,), 7.0).cuda(), torch.zeros(3).pin_memory()
    shown = pinned.numpy()
    torch.cuda.synchronize()
    pinned.copy_(x, non_blocking=True)
    again = pinned.to("cuda", non_blocking=True)
    assert shown.tolist() == [0, 0, 0]
    torch.cuda.synchronize()
    assert shown.tolist() == again.tolist() == [7, 7, 7]


@pytest.mark.parametrize("waits", [False, True])
def test_pinned_memory_that_is_written_through_numpy_races_with_the_copy_that_reads_it(waits):
    pinned, x = torch.zeros(N).pin_memory(), torch.empty(N, device="cuda")
    shown = memoryview(pinned.numpy())
    with observe() as seen:
        for number in range(2):
            shown[0] = number
            x.copy_(pinned, non_blocking=True)
            if waits:
                torch.cuda.synchronize()
    assert race_kinds(seen) == ([] if waits else ["write after read"])


def test_pinned_and_non_blocking_waits_for_nothing():
    pinned = torch.ones(N).pin_memory()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
    assert seen.waits == ()


def test_non_blocking_from_pageable_memory_waits_for_the_staging_of_more_than_64_kb():
    with observe() as seen:
        torch.ones(1 << 14).to("cuda", non_blocking=True)
        torch.ones(1 << 20).to("cuda", non_blocking=True)
    assert [w.reason for w in seen.waits] == ["copy HtoD, pageable memory, until staged"]


def test_peak_and_new_bytes_count_device_memory():
    a, b = matrices()
    with observe() as seen:
        c = a + b
        c = c * 2
    assert seen.new_bytes == 2 * N * N * 4 == seen.peak_bytes and c.numel()


def race_kinds(seen):
    return [race.kind for race in seen.races]


def test_reading_on_a_side_stream_what_the_default_one_writes_is_a_race():
    side = torch.cuda.Stream()
    with observe() as seen:
        x = torch.ones(N, device="cuda")  # made
        with torch.cuda.stream(side):
            x * 2  # used
    (race,) = seen.races
    assert race.kind == "read after write" and (race.first_stream, race.second_stream) == (0, side.stream_id)
    assert here(race.first_line, "# made") and here(race.second_line, "# used") and not race.reuse


def test_wait_stream_orders():
    side = torch.cuda.Stream()
    with observe() as seen:
        x = torch.ones(N, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
        torch.cuda.current_stream().wait_stream(side)
        y.sum()
    assert seen.races == ()


def test_a_race_with_a_tensor_made_before_the_block_is_seen():
    x, side = torch.ones(N, device="cuda"), torch.cuda.Stream()
    with observe() as seen:
        with torch.cuda.stream(side):
            x.add_(1)
    assert race_kinds(seen) == ["write after write"]


def test_the_way_back_is_forgotten():
    side = torch.cuda.Stream()
    x = torch.ones(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with observe() as seen:
        with torch.cuda.stream(side):
            y = x * 2
        y.sum()
    assert race_kinds(seen) == ["read after write"]


def test_an_event_recorded_too_early_orders_nothing():
    side = torch.cuda.Stream()
    with observe() as seen:
        event = torch.cuda.current_stream().record_event()
        x = torch.ones(N, device="cuda")
        side.wait_event(event)
        with torch.cuda.stream(side):
            x * 2
    assert race_kinds(seen) == ["read after write"]


def test_an_event_recorded_on_the_wrong_stream_orders_nothing():
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    with observe() as seen:
        x = torch.ones(N, device="cuda")
        side.wait_event(other.record_event())
        with torch.cuda.stream(side):
            x * 2
    assert race_kinds(seen) == ["read after write"]


@pytest.mark.parametrize("wait", ["device", "stream", "event", "query", "item"])
def test_the_host_orders_what_it_waited_for(wait):
    side = torch.cuda.Stream()
    with observe() as seen:
        x = torch.ones(N, device="cuda")
        event = torch.cuda.current_stream().record_event()
        if wait == "device":
            torch.cuda.synchronize()
        elif wait == "stream":
            torch.cuda.current_stream().synchronize()
        elif wait == "event":
            event.synchronize()
        elif wait == "query":
            while not event.query():
                pass
        else:
            x.sum().item()
        with torch.cuda.stream(side):
            x * 2
    assert seen.races == ()


def test_order_is_transitive():
    one, two = torch.cuda.Stream(), torch.cuda.Stream()
    with observe() as seen:
        x = torch.ones(N, device="cuda")
        one.wait_stream(torch.cuda.current_stream())
        two.wait_stream(one)
        with torch.cuda.stream(two):
            x * 2
    assert seen.races == ()


def test_backward_of_work_on_a_side_stream_is_ordered_by_autograd():
    side, weight = torch.cuda.Stream(), torch.ones(N, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    with observe() as seen:
        with torch.cuda.stream(side):
            loss = (weight * 2).sum()
        torch.cuda.current_stream().wait_stream(side)
        loss.backward()
    assert seen.races == ()


def test_backward_does_not_wait_for_a_stream_that_has_nothing_of_it():
    side, weight = torch.cuda.Stream(), torch.ones(N, device="cuda", requires_grad=True)
    batch = torch.ones(1 << 24).pin_memory()
    loss = (weight * 2).sum()
    with observe() as seen:
        with torch.cuda.stream(side):
            batch.to("cuda", non_blocking=True)
        loss.backward()
        torch.cuda.synchronize()
    (copy,) = [copy for copy in seen.copies if copy.kind == "HtoD"]
    backward = [kernel for kernel in seen.kernels if kernel.stream == 0]
    assert backward and all(kernel.end_us < copy.end_us for kernel in backward)


def test_reading_on_two_streams_is_no_race():
    x, one, two = torch.ones(N, device="cuda"), torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        for side in (one, two):
            with torch.cuda.stream(side):
                x * 2
    assert seen.races == ()


def test_writing_what_another_stream_still_reads_is_a_race():
    x, side = torch.ones(N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        with torch.cuda.stream(side):
            x * 2
        x.zero_()
    assert race_kinds(seen) == ["write after read"]


def test_separate_halves_of_one_buffer_are_no_race():
    buffer, side = torch.zeros(2, N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        buffer[0].add_(1)
        with torch.cuda.stream(side):
            buffer[1].add_(1)
    assert seen.races == ()


PARTS = {
    "two columns": lambda x: (x[:, 0], x[:, 1]),
    "q and k of a packed qkv": lambda x: (x.view(8, 4, 32)[..., :8], x.view(8, 4, 32)[..., 8:16]),
    "real and imaginary": lambda x: (
        torch.view_as_complex(x.view(-1, 2)).real,
        torch.view_as_complex(x.view(-1, 2)).imag,
    ),
    "even and odd rows": lambda x: (x[0::2], x[1::2]),
    "a column and the others": lambda x: (x[:, 3], x[:, 4:]),
}
ONE_BYTE = {
    "a column and the whole": lambda x: (x[:, 3], x),
    "every second row and every fourth": lambda x: (x[::2], x[::4]),
    "two windows": lambda x: (x[:, :5], x[:, 4:9]),
    "the same column, transposed": lambda x: (x[:, 3], x.t()[3]),
}


def written_on_two_streams(parts):
    one, other = parts(torch.ones(32, 32, device="cuda"))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        one.mul_(2)
        with torch.cuda.stream(side):
            other.mul_(2)
        torch.cuda.synchronize()
    return race_kinds(seen)


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_parts_that_share_no_element_are_no_race(parts):
    assert written_on_two_streams(parts) == []


@pytest.mark.parametrize("parts", ONE_BYTE.values(), ids=ONE_BYTE)
def test_parts_that_share_an_element_are_a_race(parts):
    assert written_on_two_streams(parts) == ["write after write"]


def test_a_write_to_a_column_forgets_nothing_of_what_lies_between_its_elements():
    x, side, third = torch.ones(32, 32, device="cuda"), torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with observe() as seen:
        x[5, 3:5].mul_(2)
        with torch.cuda.stream(side):
            x[:, 0].mul_(2)
        with torch.cuda.stream(third):
            x[5, 3:5] + 1
    assert race_kinds(seen) == ["read after write"]


def reused(record):
    """Memory that one stream still reads goes back to the pool of another, and is written."""
    side = torch.cuda.Stream()
    x = torch.ones(N, N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with observe() as seen:
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            x * 2
        if record:
            x.record_stream(side)
        del x
        torch.zeros(N, N, device="cuda")
    return seen


def test_memory_reused_under_a_running_stream_is_a_race():
    (race,) = reused(record=False).races
    assert race.reuse and race.kind == "write after read"


def test_record_stream_keeps_the_memory_back():
    assert reused(record=True).races == ()


def test_overwriting_a_pinned_buffer_under_its_copy_is_a_race():
    pinned = torch.ones(N).pin_memory()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
        pinned.zero_()
    (race,) = seen.races
    assert race.kind == "write after read" and race.second_stream == -1


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the same stream", "another stream"])
def test_a_copy_into_a_pinned_buffer_is_in_its_streams_order_behind_one_out_of_it(elsewhere):
    pinned, x = torch.ones(N).pin_memory(), torch.zeros(N, device="cuda")
    stream = torch.cuda.Stream() if elsewhere else torch.cuda.current_stream()
    torch.cuda.synchronize()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
        with torch.cuda.stream(stream):
            pinned.copy_(x)
    assert race_kinds(seen) == (["write after read"] if elsewhere else [])


def test_waiting_before_overwriting_a_pinned_buffer_is_no_race():
    pinned = torch.ones(N).pin_memory()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
        torch.cuda.current_stream().synchronize()
        pinned.zero_()
    assert seen.races == ()


@pytest.mark.parametrize("read", [lambda t: t.sum(), lambda t: t.numpy(), lambda t: t.tolist()])
def test_reading_bytes_on_their_way_to_the_host_is_a_race(read):
    x = torch.ones(N, device="cuda")
    with observe() as seen:
        read(x.to("cpu", non_blocking=True))
    assert race_kinds(seen) == ["read after write"]


READS = {
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy(),
    "sum": lambda t: t.sum(),
    "item": lambda t: t[0].item(),
}


def filled_in_turn(rows):
    """A page-locked table that copies fill row by row, and an event behind each copy."""
    x, table = torch.ones(4, device="cuda"), torch.empty(rows, 4, pin_memory=True)
    arrived = [torch.cuda.Event() for _ in range(rows)]
    for row, event in zip(table, arrived):
        row.copy_(x, non_blocking=True)
        event.record()
    return table, arrived


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_a_row_that_has_arrived_is_no_race_while_the_next_is_on_its_way(read):
    with observe() as seen:
        table, arrived = filled_in_turn(2)
        arrived[0].synchronize()
        read(table[0])
    assert seen.races == ()


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_the_next_row_before_it_has_arrived_is_a_race(read):
    with observe() as seen:
        table, arrived = filled_in_turn(2)
        arrived[0].synchronize()
        read(table[1])
    assert race_kinds(seen) == ["read after write"]


def test_a_hundred_rows_are_told_apart():
    with observe() as seen:
        table, arrived = filled_in_turn(100)
        for row, event in zip(table, arrived):
            event.synchronize()
            row.tolist()
    assert seen.races == ()


def test_copy_and_kernel_overlap_on_two_streams():
    pinned, side = torch.ones(4 << 20).pin_memory(), torch.cuda.Stream()
    a = torch.ones(2048, 2048, device="cuda")
    torch.cuda.synchronize()
    with observe() as seen:
        with torch.cuda.stream(side):
            pinned.to("cuda", non_blocking=True)
        a @ a
    (copy,), (kernel,) = seen.copies, seen.kernels
    assert copy.start_us < kernel.end_us and kernel.start_us < copy.end_us


def test_two_copies_the_same_way_share_the_engine():
    pinned, side = torch.ones(4 << 20).pin_memory(), torch.cuda.Stream()
    with observe() as seen:
        pinned.to("cuda", non_blocking=True)
        with torch.cuda.stream(side):
            pinned.to("cuda", non_blocking=True)
    first, second = seen.copies
    assert second.start_us >= first.end_us


def spans(size):
    streams = [torch.cuda.Stream() for _ in range(2)]
    x = torch.ones(size, size, device="cuda")
    torch.cuda.synchronize()
    with observe() as seen:
        torch.cuda._sleep(1_000_000)
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                x @ x
    return [k for k in seen.kernels if k.name == "aten.mm"]


def test_small_kernels_run_side_by_side():
    one, two = spans(64)
    assert two.start_us < one.end_us


def test_large_kernels_do_not():
    one, two = spans(2048)
    assert two.start_us >= one.end_us


def product_us(card, dtype):
    with gpulab.cuda.use(f"ghost:{card}", quiet=True):
        a = torch.zeros(8192, 8192, device="cuda", dtype=dtype)
        with observe() as seen:
            a @ a
        return seen.kernels[-1].end_us - seen.kernels[-1].start_us


def test_half_precision_runs_on_the_matrix_units_and_float32_does_not():
    faster = product_us("H100", torch.float32) / product_us("H100", torch.float16)
    peaks = gpulab.cuda.CARDS["H100"].flops_per_s
    assert faster == pytest.approx(peaks["fp16"] / peaks["fp32"], rel=0.02)


def test_tf32_is_used_once_it_is_allowed():
    plain = product_us("A100", torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert product_us("A100", torch.float32) < plain / 7
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.audit
def test_tf32_may_be_asked_for_by_its_newer_name():
    # In a process of its own: once the newer name was used, reading the older one raises.
    script = """
import torch, gpulab, gpulab.cuda
def product_us():
    with gpulab.cuda.use("ghost:A100", quiet=True):
        a = torch.zeros(8192, 8192, device="cuda")
        with gpulab.observe() as seen:
            a @ a
    return seen.kernels[-1].end_us - seen.kernels[-1].start_us
plain = product_us()
torch.backends.cuda.matmul.fp32_precision = "tf32"
print(plain / product_us())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 7


def test_a_kernel_takes_the_longer_of_arithmetic_and_bytes():
    card = gpulab.cuda.CARDS["H100"]
    x = torch.zeros(1 << 22, device="cuda")
    with observe() as seen:
        x + 1
    took = seen.kernels[0].end_us - seen.kernels[0].start_us
    bandwidth_us = 2 * x.nbytes / card.sustained_bytes_per_s * 1e6
    assert bandwidth_us < took < bandwidth_us + 5


def test_the_timing_trap():
    a = torch.zeros(2048, 2048, device="cuda")
    a @ a
    torch.cuda.synchronize()
    begin = time.perf_counter()
    a @ a
    queued = time.perf_counter() - begin
    torch.cuda.synchronize()
    done = time.perf_counter() - begin
    assert queued < 10e-6 and done > 20 * queued


def test_sleeping_costs_the_host_what_it_says():
    begin = time.perf_counter()
    time.sleep(0.01)
    assert 0.01 <= time.perf_counter() - begin < 0.0101


def test_a_library_reads_the_real_clock():
    from timeit import timeit

    assert timeit("sum(range(1000))", number=50) > 10e-6


def workload():
    torch.manual_seed(0)
    side, model = torch.cuda.Stream(), torch.nn.Linear(N, N).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    with observe() as seen:
        for _ in range(2):
            with torch.cuda.stream(side):
                x = torch.randn(8, N).pin_memory().to("cuda", non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()
    return seen


def test_the_same_code_gives_the_same_observation():
    first = workload().to_dict()
    with gpulab.cuda.use("virtual:H100", quiet=True):
        one = workload().to_dict()
    with gpulab.cuda.use("virtual:H100", quiet=True):
        two = workload().to_dict()
    assert one == two and len(first["kernels"]) == len(one["kernels"])


@pytest.mark.audit
def test_the_same_code_gives_the_same_observation_in_another_process():
    code = (
        "import gpulab.cuda; from tests.cuda import test_observation as t; "
        "gpulab.cuda.use('virtual:H100', quiet=True); print(t.workload().to_dict())"
    )
    root, command = pathlib.Path(gpulab.__file__).parents[1], [sys.executable, "-c", code]
    there = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    assert there.strip() == str(workload().to_dict())


def test_plain_data_and_back():
    seen = workload()
    data = json.loads(json.dumps(seen.to_dict()))
    assert Observation.from_dict(data).to_dict() == seen.to_dict()


def test_the_timeline_says_what_it_shows_and_that_it_is_modelled():
    figure = workload().timeline()
    assert "modelled" in figure.alt and "kernels" in figure.alt and "copy HtoD" in figure.svg


def test_a_timeline_of_nothing_is_refused():
    with observe() as seen:
        pass
    with pytest.raises(ValueError, match="nothing to draw"):
        seen.timeline()


def test_the_table_names_what_waits_and_what_races():
    side, x = torch.cuda.Stream(), torch.ones(N, device="cuda")
    with observe() as seen:
        with torch.cuda.stream(side):
            x * 2
        x.sum().item()
    text = " ".join(seen.table().split())
    assert "virtual NVIDIA H100 80GB HBM3, modelled: 2 kernels, 1 DtoH of 4 B, 1 host wait of" in text
    assert "waits: x.sum().item() (aten._local_scalar_dense)" in text
    assert "race, read after write: x.sum" not in text and "(default stream) and x * 2 (stream 1)" in text


def test_the_cell_magic_keeps_the_observation():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "gpulab.observe.magic")
    shell.push({"x": torch.ones(N, device="cuda")})
    shell.run_cell("%%timeline seen\ny = x + 1")
    (kernel,) = shell.user_ns["seen"].kernels
    assert kernel.name == "aten.add" and kernel.line.text == "y = x + 1"


def test_without_a_device_an_observation_has_none():
    gpulab.cuda.use("off", quiet=True)
    with observe() as seen:
        torch.ones(2)
    assert seen.device is None and seen.kernels == seen.waits == seen.races == ()


def test_a_gpu_that_is_first_used_inside_the_block_gives_an_error_and_no_empty_answer(monkeypatch):
    gpulab.cuda.use("off", quiet=True)
    with observe() as seen:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for blind in (seen, Observation.from_dict(seen.to_dict())):
        with pytest.raises(RuntimeError, match="first used inside the block"):
            blind.races


@pytest.mark.parametrize("name", coverage.REFUSED)
def test_what_is_not_modelled_says_so(name):
    with pytest.raises(gpulab.cuda.NotModelled, match="is not modelled by the virtual CUDA device"):
        coverage.REFUSED[name]()


def shares(call):
    """Two calls on two streams: whether they ran side by side."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    with observe() as seen:
        torch.cuda._sleep(1_000_000)
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                call()
    one, two = [k for k in seen.kernels if k.name != "spin_kernel"][-2:]
    return two.start_us < one.end_us


def test_a_lookup_in_a_large_table_fills_no_more_than_what_it_fetches():
    table, rows = torch.ones(1 << 16, 64, device="cuda"), torch.arange(8, device="cuda")
    assert shares(lambda: torch.nn.functional.embedding(rows, table))
    assert shares(lambda: table[rows])
    assert shares(lambda: table.index_select(0, rows))


def test_a_reduction_of_a_large_tensor_fills_the_card():
    table = torch.ones(1 << 16, 64, device="cuda")
    assert not shares(lambda: table.sum())


def test_a_lookup_reads_the_rows_it_fetches_and_a_scatter_writes_those_it_is_given():
    table, rows = torch.ones(1 << 16, 64, device="cuda"), torch.arange(8, device="cuda")
    with observe() as seen:
        table.index_select(0, rows)
        table.index_add_(0, rows, torch.ones(8, 64, device="cuda"))
    lookup, scatter = seen.kernels[0], seen.kernels[-1]
    assert lookup.bytes_read == 8 * 64 * 4 + 8 * 8 and lookup.bytes_written == 8 * 64 * 4
    assert scatter.bytes_written == 8 * 64 * 4


def test_each_operation_says_where_it_ran():
    with observe() as seen:
        torch.ones(2).cuda() + 1
    assert [(op.op, op.device) for op in seen.ops] == [("aten.ones", "cpu"), ("aten.add", "cuda:0")]


def test_the_table_shows_copies_when_nothing_else_ran():
    x = torch.ones(N)
    with observe() as seen:
        x.cuda()
    assert seen.ops == () and "1 HtoD of" in seen.table() and "No PyTorch operation" not in seen.table()


def test_a_copy_within_the_device_reads_its_source_alone():
    source, target = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
    with observe() as seen:
        target.copy_(source)
        target.zero_()
    assert [(k.bytes_read, k.bytes_written) for k in seen.kernels] == [(4 * N, 4 * N), (0, 4 * N)]


def test_observing_changes_nothing_for_a_tensor_that_pytorch_makes_on_the_way():
    classes = torch.tensor([0, 1], device="cuda")
    assert torch.ops.aten.one_hot(classes, 2).is_cuda
    with observe():
        assert torch.ops.aten.one_hot(classes, 2).is_cuda
        with observe():
            assert torch.ops.aten.one_hot(classes, 2).is_cuda


def test_observing_changes_nothing_for_a_host_tensor_of_the_program():
    host = torch.ones(N)
    with observe(), pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(N, device="cuda") + host


MASKS = {
    "all": lambda x: (x > 0,),
    "rows": lambda x: (x[:, 0] > 0,),
    "behind a colon": lambda x: (slice(None), x[0] > 0),
    "an ellipsis": lambda x: (..., x[0] > 0),
    "a mask of the host": lambda x: ((x > 0).cpu(),),
    "indices": lambda x: (torch.tensor([2, 0], device=x.device),),
    "indices and a mask": lambda x: (x[:, 0] > 0, torch.tensor(1, device=x.device)),
}


@pytest.mark.parametrize("number", [7.0, torch.tensor(7.0)], ids=["a number", "a tensor of the host"])
@pytest.mark.parametrize("index", MASKS.values(), ids=MASKS)
def test_a_number_written_under_a_mask_lands_where_it_does_on_the_host(index, number):
    host = torch.arange(12.0).reshape(4, 3) - 5
    card = host.cuda()
    host[index(host)] = number
    card[index(card)] = number
    assert torch.equal(card.cpu(), host)


def test_a_mask_before_a_dimension_that_is_left_whole_fills_rows():
    x = torch.ones(3, 3, device="cuda")
    rows = torch.tensor([True, False, False], device="cuda")
    torch.ops.aten.index_put_(x, [rows, None], torch.tensor(0.0))
    assert x.tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]


def test_a_mask_of_another_shape_is_refused_under_a_number_too():
    x = torch.ones(4, 3, device="cuda")
    with pytest.raises(IndexError, match="shape of the mask"):
        x[torch.ones(3, dtype=torch.bool, device="cuda")] = 0.0
