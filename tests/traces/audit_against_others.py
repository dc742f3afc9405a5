"""The public traces are judged as their authors' own tools judge them.

*Published*: asserted in HolisticTraceAnalysis's tests, or printed by torch-tb-profiler 0.4.3. *Computed*: printed by
HolisticTraceAnalysis 0.5.0 with ``include_last_profiler_step=True``; not run here, since it brings pandas along. It takes
whole microseconds, so where a trace has finer times they are rounded as it rounds them. Of the four large traces
these are cuts, with all events that take time and without stacks and shapes: see gpulab/traces/public/README.md.
"""

import gzip
import json
import math

import pytest

from gpulab.traces import breakdown, read
from gpulab.traces.diagnosis import bottleneck
from gpulab.traces.intervals import subtraction
from gpulab.traces.public import public
from gpulab.traces.self_times import self_times

# name: idle, compute, non-compute and all of the kernels' span, in microseconds; and the overlapped part of communication.
COMPUTED = {
    "resnet50_num_workers_0": (273_921, 591_209, 10_936, 876_066, None),
    "resnet50_num_workers_4": (116_323, 594_263, 17_895, 728_481, None),
    "nccl_data": (506_512, 113_012, 41_026, 660_550, 0.1514),
    "ns_resolution": (12_143, 464_915, None, None, None),
    "sampled_rank-0": (675_191, 210_320, 337_336, 1_222_847, 0.1495),
    "sampled_rank-1": (651_136, 271_973, 308_077, 1_231_186, 0.1993),
    "cuda_event_sync": (207, None, None, 263, None),
    "cuda_event_sync_multi_stream": (19_132, None, None, 19_506, None),
    "amd_mi250": (8_780, None, None, 8_911, None),
}


def rounded(name):
    """The trace in whole microseconds as HolisticTraceAnalysis reads it: an event shrinks to those that lie inside it."""
    document = json.loads(gzip.decompress(public(name).read_bytes()))
    for event in document["traceEvents"]:
        if "dur" in event:
            end = math.floor(event["ts"] + event["dur"])
            event["ts"] = math.ceil(event["ts"])
            event["dur"] = max(0, end - event["ts"])
    return read(document)


@pytest.fixture(scope="module")
def pair():
    return [read(public(f"resnet50_num_workers_{workers}")) for workers in (0, 4)]


@pytest.mark.parametrize("name", COMPUTED)
def test_idle_compute_and_the_rest_are_those_of_holistic_trace_analysis(name):
    trace = rounded(name)
    found, expected = breakdown(trace, trace.device_span), COMPUTED[name]
    mine = (found.idle, found.compute, found.non_compute, found.total, round(found.hidden_share, 4))
    assert [m for m, d in zip(mine, expected, strict=True) if d is not None] == [
        pytest.approx(d, abs=5) for d in expected if d is not None
    ]


@pytest.mark.parametrize(("which", "host_wait", "kernel_wait"), [(0, 263_800, 10_121), (1, 105_474, 10_849)])
def test_idle_time_is_the_hosts_where_holistic_trace_analysis_says_host_wait(pair, which, host_wait, kernel_wait):
    """Computed. It asks whether the launch had begun when the stream ran dry, the book whether it was over: nearly the same."""
    trace = pair[which]
    found = breakdown(trace, trace.device_span)
    assert found.idle == host_wait + kernel_wait and found.unknown == 0
    assert found.input + found.sync + found.launch == pytest.approx(host_wait, rel=0.01)
    busy = [event.span for event in trace.device]
    gaps = subtraction([trace.device_span], busy)
    by_start = {event.start: trace.launched_by[event.correlation].start for event in reversed(trace.device)}
    assert sum(end - start for start, end in gaps if by_start[end] <= start) == kernel_wait


def test_the_pair_is_judged_as_the_plugin_judges_it(pair):
    """Published: "high time cost on input data loading. 22.9% of the step time is in DataLoader"; and of the other, nothing of it."""
    without, with_workers = map(bottleneck, pair)
    assert without.kind == "input" and without.shares["input"] == pytest.approx(0.229, abs=0.005)
    assert "input" not in with_workers.complaints and with_workers.shares["input"] < 0.005
    assert [v.rests_on.loading for v in (without, with_workers)] == [272_769, 8_540]


def test_the_steps_in_the_middle_of_the_pair_wait_alike_for_launches_and_the_last_step_ends_without_work(pair):
    steady = [bottleneck(trace, (trace.steps[1].start, trace.steps[-1].start)) for trace in pair]
    assert [verdict.kind for verdict in steady] == ["input", "compute"] and [v.rests_on.steps for v in steady] == [4, 4]
    launches = [verdict.rests_on.launch / verdict.rests_on.steps for verdict in steady]
    assert launches[1] == pytest.approx(launches[0], rel=0.1)
    shorter = [verdict.rests_on.total / verdict.rests_on.steps for verdict in steady]
    assert shorter[0] - shorter[1] == pytest.approx(steady[0].rests_on.input / 4, rel=0.15)
    trace = pair[1]
    last, kernels = trace.steps[-1], max(event.end for event in trace.device)
    host = [e.end for e in trace.events if not e.on_device and last.start < e.start < kernels]
    assert last.end - max(kernels, *host) > 80_000
    assert bottleneck(trace).kind == "launch"


def test_a_launch_bound_a_compute_bound_and_a_communicating_trace():
    launched, computing = bottleneck(read(public("nccl_data"))), bottleneck(read(public("ns_resolution")))
    assert launched.kind == "launch" and launched.rests_on.launch / launched.rests_on.idle > 0.95
    assert computing.kind == "compute" and computing.complaints == ()
    # Sampled: launches are missing, so only the communication in it is judged.
    assert "communication" in bottleneck(read(public("sampled_rank-0"))).complaints


def test_host_events_of_every_public_trace_nest():
    for name in ("resnet50_num_workers_4", "nccl_data", "alexnet", "amd_mi250"):
        found = self_times(read(public(name)), calls=True)
        assert min(one.self_time for one in found) > -2 * max(len(one.children) for one in found)
