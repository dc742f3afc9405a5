"""Where a step's time went, on steps small enough to add up by hand."""

import random

import pytest

from gpulab.traces import breakdown, read, self_times
from gpulab.traces.diagnosis import KINDS, bottleneck
from tests.traces.drawn import random_document

PARTS = ("matrix", "other", "communication", "copies", "input", "sync", "launch", "between", "unknown")


def host(cat, name, start, end, correlation=None, tid=1):
    args = {} if correlation is None else {"correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}


def work(name, start, end, correlation, cat="kernel", stream=7):
    args = {"device": 0, "stream": stream, "correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": end - start, "args": args}


def step(end, *events):
    return read({"traceEvents": [host("user_annotation", "ProfilerStep#1", 0, end), *events]})


def parts(trace):
    found = breakdown(trace)
    return {name: getattr(found, name) for name in PARTS if getattr(found, name)}


def launched(name, at, start, end, number, **more):
    return host("cuda_runtime", "cudaLaunchKernel", at, at + 2, number), work(name, start, end, number, **more)


def test_each_moment_counts_once_for_the_first_of_what_runs():
    trace = step(
        100,
        *launched("sgemm", 0, 10, 40, 1),
        *launched("add", 2, 30, 50, 2, stream=8),
        *launched("ncclAllReduce", 4, 45, 70, 3, stream=9),
        *launched("Memcpy HtoD", 6, 60, 80, 4, cat="gpu_memcpy", stream=10),
    )
    assert parts(trace) == {"matrix": 30, "other": 10, "communication": 20, "copies": 10, "launch": 30}
    assert breakdown(trace).hidden == 5 and breakdown(trace).hidden_share == 0.2


def test_the_parts_of_random_traces_add_up_and_none_is_negative():
    for seed in range(60):
        trace = read(random_document(seed))
        start, end = trace.window
        rng = random.Random(seed)
        for window in (None, (start, end), tuple(sorted(rng.uniform(start, end) for _ in range(2)))):
            found = breakdown(trace, window)
            assert sum(getattr(found, name) for name in PARTS) == pytest.approx(found.total)
            assert min(getattr(found, name) for name in (*PARTS, "hidden", "loading")) > -1e-6
            assert found.loading >= found.input - 1e-6


def test_a_gap_is_the_hosts_until_the_launch_is_over_and_the_queues_after_it():
    assert parts(step(30, *launched("sgemm", 0, 5, 10, 1), *launched("sgemm", 7, 12, 30, 2))) == {
        "matrix": 23,
        "launch": 5,
        "between": 2,
    }
    assert parts(step(30, *launched("sgemm", 0, 5, 10, 1), *launched("sgemm", 9, 12, 30, 2))) == {
        "matrix": 23,
        "launch": 7,
    }


def test_what_comes_after_a_wait_for_the_device_is_the_waits_loss():
    wait = host("cuda_runtime", "cudaStreamSynchronize", 3, 11)
    assert parts(step(30, *launched("sgemm", 0, 5, 10, 1), wait, *launched("sgemm", 15, 18, 30, 2))) == {
        "matrix": 17,
        "launch": 5,
        "sync": 8,
    }


def test_a_copy_that_holds_the_host_is_a_wait_whatever_it_is_called():
    call = host("cuda_runtime", "cudaMemcpyAsync", 2, 21, 1)
    copy = work("Memcpy HtoD (Pageable -> Device)", 4, 20, 1, cat="gpu_memcpy")
    assert parts(step(40, call, copy, *launched("sgemm", 26, 30, 40, 2))) == {
        "matrix": 10,
        "copies": 16,
        "sync": 10,
        "launch": 4,
    }


def test_a_loader_counts_only_while_the_device_has_nothing_to_do():
    loader = host("cpu_op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 4, 20)
    trace = step(40, *launched("sgemm", 0, 5, 12, 1), loader, *launched("sgemm", 22, 25, 40, 2))
    assert parts(trace) == {"matrix": 22, "launch": 9, "input": 9} and breakdown(trace).loading == 16


def test_a_kernel_whose_launch_is_not_recorded_leaves_the_cause_open():
    assert parts(step(30, *launched("sgemm", 0, 5, 10, 1), work("sgemm", 20, 30, 9))) == {
        "matrix": 15,
        "launch": 5,
        "unknown": 10,
    }


def test_work_that_ends_after_the_last_step_belongs_to_it():
    trace = step(10, *launched("sgemm", 0, 5, 60, 1))
    assert breakdown(trace).total == 60


def test_a_trace_of_the_host_alone_is_divided_by_what_its_operations_do_themselves():
    trace = step(
        100,
        host("cpu_op", "aten::linear", 10, 60),
        host("cpu_op", "aten::t", 12, 15),
        host("cpu_op", "aten::addmm", 15, 55),
        host("cpu_op", "aten::copy_", 16, 20),
        host("user_annotation", "input", 70, 90),
    )
    assert parts(trace) == {"matrix": 36, "other": 11, "input": 20, "launch": 33} and not breakdown(trace).device


def test_an_empty_window_is_refused():
    with pytest.raises(ValueError, match="empty"):
        breakdown(step(10), (3, 3))


def kind_of(*events, end=100):
    return bottleneck(step(end, *events)).kind


def test_each_of_the_six_kinds_is_told():
    busy = launched("sgemm", 0, 2, 60, 1)
    loader = host("user_annotation", "input", 60, 97)
    wait = host("cuda_runtime", "cudaDeviceSynchronize", 3, 61)
    found = {
        "compute": kind_of(*launched("sgemm", 0, 2, 100, 1)),
        "memory": kind_of(*launched("vectorized_elementwise_kernel", 0, 2, 99, 1)),
        "communication": kind_of(*busy, *launched("ncclDevKernel_AllReduce", 3, 50, 100, 2, stream=9)),
        "input": kind_of(*busy, loader, *launched("sgemm", 97, 99, 100, 2)),
        "sync": kind_of(*busy, wait, *launched("sgemm", 97, 99, 100, 2)),
        "launch": kind_of(*busy, *launched("sgemm", 97, 99, 100, 2)),
    }
    assert found == {kind: kind for kind in KINDS}


def test_hidden_communication_is_no_complaint():
    hidden = launched("ncclDevKernel_AllReduce", 3, 10, 95, 2, stream=9)
    verdict = bottleneck(step(100, *launched("sgemm", 0, 2, 100, 1), *hidden))
    assert verdict.kind == "compute" and verdict.shares["communication"] == 0 and verdict.rests_on.hidden == 85


def test_a_verdict_says_its_share_and_the_other_complaints():
    loader = host("user_annotation", "input", 0, 30)
    events = (loader, *launched("sgemm", 30, 32, 60, 1), *launched("ncclDevKernel_AllReduce", 33, 60, 100, 2, stream=9))
    assert str(bottleneck(step(100, *events))) == "communication: 40.0% of the time; also input 30.0%"


def nest_of(*spans):
    return read({"traceEvents": [host("cpu_op", name, start, end, tid=tid) for name, start, end, tid in spans]})


def test_self_time_is_without_children_and_grandchildren_are_taken_once():
    trace = nest_of(("a", 0, 100, 1), ("b", 10, 60, 1), ("c", 20, 30, 1), ("d", 70, 80, 1), ("other", 5, 50, 2))
    found = {one.event.name: (one.total, one.self_time) for one in self_times(trace)}
    assert found == {"a": (100, 40), "b": (50, 40), "c": (10, 10), "d": (10, 10), "other": (45, 45)}


def test_events_of_a_thread_that_overlap_by_half_are_refused():
    with pytest.raises(ValueError, match="'b' begins inside 'a' and ends after it"):
        self_times(nest_of(("a", 0, 50, 1), ("b", 20, 80, 1)))
