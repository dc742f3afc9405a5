"""The reader takes what Kineto has written since 2021 as it is, and says what is no trace."""

import gzip
import json

import pytest

from gpulab.traces import NotATrace, Trace, read
from gpulab.traces.public import NAMES, public


def event(**facts):
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 5, **facts}


@pytest.fixture(scope="module")
def traces():
    return {name: read(public(name)) for name in NAMES}


def test_every_public_trace_is_read(traces):
    assert len(traces) == 13
    for trace in traces.values():
        assert trace.device and trace.events[0].start == 0 and trace.of("operation") and trace.of("call")


def test_categories_and_names_of_2021_are_todays(traces):
    old = traces["resnet50_num_workers_0"]
    assert {kind: len(old.of(kind)) for kind in ("kernel", "copy", "set", "call")} == {
        "kernel": 8772,
        "copy": 12,
        "set": 312,
        "call": 11923,
    }
    assert [step.name for step in old.steps] == [f"ProfilerStep#{n}" for n in range(16, 22)]
    assert [step.duration for step in old.steps] == [159_363, 149_046, 148_659, 151_733, 153_205, 155_725]
    assert {k.stream for k in old.device} == {7} and old.name == "Tesla V100-DGXS-32GB"


def test_steps_calls_and_streams_of_today_of_amd_and_of_triton(traces):
    assert len(traces["amd_mi250"].steps) == 2 and {e.stream for e in traces["amd_mi250"].device} == {0}
    assert {e.stream for e in traces["cuda_event_sync_multi_stream"].of("kernel")} == {20, 24, 28}
    (kernel,) = traces["triton_example"].of("kernel")
    assert traces["triton_example"].launched_by[kernel.correlation].name == "cuLaunchKernel"
    assert traces["alexnet"].steps == [] and traces["sampled_rank-0"].name is None


def test_kernels_of_nccl_are_collectives_and_their_ranges_on_the_host_are_not(traces):
    """Published: HolisticTraceAnalysis, tests/test_trace_parse.py: 21, of which 15 are all-reduces and 6 broadcasts."""
    names = [c.name for c in traces["nccl_data"].of("collective")]
    assert [len(names), sum("AllReduce" in n for n in names), sum("Broadcast" in n for n in names)] == [21, 15, 6]


def test_a_trace_with_nanoseconds_keeps_them_and_holds_what_its_file_lists(traces):
    trace = traces["ns_resolution"]
    assert [len(trace.of(kind)) for kind in ("kernel", "collective", "copy", "set")] == [4350, 0, 1600, 145]
    assert any(event.duration % 1 for event in trace.device)


@pytest.mark.parametrize("pack", [lambda raw: raw, gzip.compress])
def test_files_bytes_and_parsed_json_are_read_alike_packed_or_not(tmp_path, pack):
    document = {"traceEvents": [event(), event(name="aten::add", ts=20), {"ph": "M", "name": "process_name"}]}
    raw = pack(json.dumps(document).encode())
    (tmp_path / "trace").write_bytes(raw)
    first = read(document)
    assert (
        read(raw) == read(tmp_path / "trace") == read(str(tmp_path / "trace")) == read(document["traceEvents"]) == first
    )
    assert isinstance(first, Trace) and [(e.name, e.start, e.end, e.thread) for e in first.events] == [
        ("aten::mm", 0, 5, (1, "2")),
        ("aten::add", 10, 15, (1, "2")),
    ]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b'{"traceEvents": [', "no JSON.*ends in the middle"),
        (gzip.compress(b"[]" * 99)[:20], "cut off or broken"),
        (b"\x1f\x8bnothing", "cut off or broken"),
        ({"cells": []}, "no list called traceEvents"),
        (b"a string", "no JSON"),
        ({"traceEvents": []}, "none of the 0 events"),
        ({"traceEvents": [event(ph="M"), event(cat="Trace"), "text", None]}, "none of the 4 events"),
        ({"traceEvents": [event(ts=None)]}, "'aten::mm' has no ts"),
        ({"traceEvents": [event(ts=float("nan"))]}, "has no ts"),
        ({"traceEvents": [event(dur=-1)]}, "has no dur"),
        ({"traceEvents": [event(dur="5")]}, "has no dur"),
    ],
)
def test_what_is_no_trace_is_told_apart(source, sentence):
    with pytest.raises(NotATrace, match=sentence):
        read(source)


def test_a_path_that_leads_nowhere_is_no_broken_trace(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.json")


def test_a_public_trace_that_there_is_not_is_named_with_those_there_are():
    with pytest.raises(KeyError, match="alexnet"):
        public("none")
