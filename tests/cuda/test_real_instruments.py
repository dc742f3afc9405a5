"""The instruments for a real GPU, driven where there is none: on the virtual card's own traces.

The virtual card's profiler writes the Chrome trace that CUPTI's would be, and tells PyTorch's
GPU trace hooks what a card tells them. So the same instruments must find what the machine knows.
"""

import json
import pathlib

import pytest
import torch

import gpulab
import gpulab.cuda
from gpulab.observe import InstrumentError
from gpulab.observe.chrome_trace import Operation, read
from gpulab.observe.device import DeviceLog
from gpulab.observe.real import RealDevice
from gpulab.observe.records import SourceLine

pytestmark = pytest.mark.usefixtures("virtual")
N = 256
TRACE = json.loads((pathlib.Path(__file__).parent / "data" / "kineto_trace.json").read_text())
LINE = SourceLine("notebook.py", 7, "y = a @ b", "<module>")
OPERATIONS = [Operation("aten.mm", 0, LINE), Operation("aten._local_scalar_dense", 0, LINE)]


def both(function):
    """What the machine knows of ``function``, and what the instruments for a GPU say of it."""
    instrument, said = RealDevice(), DeviceLog()
    copies = []
    said._on_copy = copies.append
    with gpulab.observe() as known:
        instrument.start(said)
        try:
            function()
        finally:
            instrument.stop(said)
    said.copies = copies
    return known, said


def work():
    x = torch.ones(N, N).cuda()
    y = x @ x  # the product
    torch.cuda.synchronize()  # asked for
    return y.sum().item()  # hidden


def test_the_instruments_find_the_kernels_that_ran_with_their_lines():
    known, said = both(work)
    mine = [k for k in known.kernels if k.name in ("aten.mm", "aten.sum")]
    assert [(k.name, k.line) for k in said.kernels] == [(k.name, k.line) for k in mine]
    took = [k.end_us - k.start_us for k in mine]
    assert [k.end_us - k.start_us for k in said.kernels] == pytest.approx(took, abs=2e-3)
    assert "# the product" in said.kernels[0].line.text and said.kernels[0].flops is None


def test_an_observation_says_whether_flops_and_bytes_are_counted():
    known, said = both(work)
    measured = gpulab.Observation.running().finish([], [], 0, 0, log=said)
    assert known.counts_work and not measured.counts_work


def test_the_instruments_find_the_copies():
    pinned = torch.ones(N).pin_memory()
    _, said = both(lambda: (pinned.to("cuda", non_blocking=True), torch.ones(4).cuda().cpu()))
    assert [(c.kind, c.bytes, c.pinned) for c in said.copies] == [
        ("HtoD", 4 * N, True),
        ("HtoD", 16, False),
        ("DtoH", 16, False),
    ]


def test_the_instruments_find_where_the_host_waits():
    _, said = both(work)
    asked, hidden = [w for w in said.waits if w.line is not None and "#" in w.line.text]
    assert asked.reason == "cudaDeviceSynchronize" and "# asked for" in asked.line.text
    assert hidden.reason == "aten._local_scalar_dense" and "# hidden" in hidden.line.text


def two_streams(ordered):
    x, side = torch.ones(N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()

    def run():
        x.add_(1)
        if ordered:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.mul_(2)

    return run


def test_the_sanitizer_finds_the_race_that_the_machine_finds():
    known, said = both(two_streams(ordered=False))
    (one,), (other,) = known.races, said.races
    assert (one.kind, one.first_line, one.second_line) == (other.kind, other.first_line, other.second_line)
    assert (one.first_stream, one.second_stream) == (other.first_stream, other.second_stream)


def test_the_sanitizer_finds_no_race_where_the_machine_finds_none():
    known, said = both(two_streams(ordered=True))
    assert known.races == () and said.races == []


@pytest.mark.parametrize("wait", ["device", "stream", "event", "item"])
def test_the_sanitizer_hears_of_every_kind_of_wait(wait):
    x, side = torch.ones(N, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()

    def run():
        x.add_(1)
        event = torch.cuda.current_stream().record_event()
        if wait == "device":
            torch.cuda.synchronize()
        elif wait == "stream":
            torch.cuda.current_stream().synchronize()
        elif wait == "event":
            event.synchronize()
        else:
            x[0].item()
        with torch.cuda.stream(side):
            x.mul_(2)

    known, said = both(run)
    assert known.races == () and said.races == []


def test_two_blocks_at_once_are_refused():
    device = RealDevice()
    device.start(DeviceLog())
    with pytest.raises(RuntimeError, match="do not nest"):
        device.start(DeviceLog())
    device.stop(DeviceLog())


def test_after_a_block_the_hooks_are_free_again():
    from torch.cuda import _gpu_trace

    both(work)
    assert not _gpu_trace.StreamSynchronizationCallbacks.callback_list


# ---- a trace in the form that Kineto writes on a GPU


def log_of(trace, operations=OPERATIONS, **options):
    copies, log = [], DeviceLog()
    log._on_copy = copies.append
    read(trace, operations, log, **options)
    return log, copies


def test_a_kernel_belongs_to_the_operation_that_launched_it():
    log, _ = log_of(TRACE)
    (kernel,) = log.kernels
    assert kernel.name == "sm90_xmma_gemm_f32f32" and kernel.line == LINE and kernel.stream == 0
    assert (kernel.start_us, kernel.end_us) == (30, 80)


def test_a_copy_has_its_bytes_and_its_host_memory():
    _, copies = log_of(TRACE)
    assert [(c.kind, c.bytes, c.pinned, c.start_us) for c in copies] == [("DtoH", 4, False, 85)]


def test_a_synchronisation_inside_an_operation_is_that_operations_wait():
    log, _ = log_of(TRACE, wait_lines={"cudaDeviceSynchronize": [LINE]})
    assert [w.reason for w in log.waits] == ["aten._local_scalar_dense", "cudaDeviceSynchronize"]
    assert all(w.line == LINE for w in log.waits)


def test_what_lies_outside_the_marks_is_left_out():
    log, _ = log_of(TRACE)
    assert "FillFunctor" not in "".join(k.name for k in log.kernels) and len(log.waits) == 2


def test_what_an_instrument_does_for_itself_is_left_out():
    """The same trace, with the copy and its wait inside a range of the instrument's own."""
    (copying,) = [e for e in TRACE["traceEvents"] if e["name"] == "gpulab:1"]
    aside = {"traceEvents": [e | {"name": "gpulab:aside"} if e is copying else e for e in TRACE["traceEvents"]]}
    log, copies = log_of(aside, wait_lines={"cudaStreamSynchronize": [None], "cudaDeviceSynchronize": [LINE]})
    assert copies == [] and [(w.reason, w.line) for w in log.waits] == [("cudaDeviceSynchronize", LINE)]
    assert [k.name for k in log.kernels] == ["sm90_xmma_gemm_f32f32"]


def without(name):
    return {"traceEvents": [e for e in TRACE["traceEvents"] if e["name"] != name]}


@pytest.mark.parametrize("mark", ["gpulab:begin", "gpulab:end", "gpulab:sentinel"])
def test_a_trace_without_a_mark_is_an_error(mark):
    with pytest.raises(InstrumentError, match="marks"):
        log_of(without(mark))


def test_a_trace_without_the_sentinels_kernel_is_an_error():
    with pytest.raises(InstrumentError, match="did not record a kernel that observe"):
        log_of(without("FillFunctor"))
