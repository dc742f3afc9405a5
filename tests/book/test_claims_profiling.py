"""Tests that settle the claims of the chapter "Profiling: finding the bottleneck", one per claim."""

import gc
import json
from collections import defaultdict

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

import gpulab
import gpulab.cuda
from gpulab.cards.cards import card_named
from gpulab.traces import read, self_times
from gpulab.traces.diagnosis import bottleneck
from gpulab.traces.public import public

CPU = [ProfilerActivity.CPU]


@pytest.fixture(scope="module")
def step():
    net, x = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)), torch.randn(8, 32)

    def one():
        net(x).square().mean().backward()

    one()
    return one


def tree(*spans):
    rows = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": took}
        for name, start, took in spans
    ]
    return read({"traceEvents": rows})


def test_self_time_is_the_total_less_the_children_so_the_notes_tree_leaves_nothing_for_its_root(step):
    with profile(activities=CPU) as prof:
        step()
    on_thread = defaultdict(lambda: [0.0, 0.0])
    for event in prof.events():
        on_thread[event.thread][0] += event.self_cpu_time_total
        on_thread[event.thread][1] += event.cpu_time_total if event.cpu_parent is None else 0
        assert event.self_cpu_time_total == pytest.approx(
            event.cpu_time_total - sum(c.cpu_time_total for c in event.cpu_children), abs=0.01
        )
    assert all(own == pytest.approx(roots, abs=0.1) and roots > 0 for own, roots in on_thread.values())
    root = self_times(tree(("forward_pass", 0, 100), ("layer1", 0, 50), ("layer2", 50, 40), ("loss", 90, 10)))[0]
    assert (root.total, root.self_time) == (100, 0)


def test_cuda_time_total_sorts_as_a_string_and_rows_have_no_such_attribute(step):
    with profile(activities=CPU) as prof:
        step()
    rows = prof.key_averages()
    assert (
        rows.table(sort_by="cuda_time_total")
        and not hasattr(rows[0], "cuda_time_total")
        and not hasattr(rows[0], "self_cuda_time_total")
    )
    assert hasattr(rows[0], "device_time_total") and hasattr(rows[0], "self_device_time_total")
    with pytest.warns(FutureWarning, match="device_time_total"):
        assert prof.events()[0].cuda_time_total == 0


def test_the_tensorboard_handler_writes_a_chrome_trace(step, tmp_path):
    with profile(activities=CPU, on_trace_ready=tensorboard_trace_handler(str(tmp_path))):
        step()
    (written,) = tmp_path.iterdir()
    assert written.name.endswith(".pt.trace.json") and json.loads(written.read_text("utf-8"))["traceEvents"]
    assert any(event.name == "aten::addmm" for event in read(written).events)


def test_the_older_profiler_has_no_schedule(step):
    with pytest.raises(TypeError, match="schedule"):
        torch.autograd.profiler.profile(schedule=schedule(wait=0, warmup=1, active=1))
    assert not hasattr(torch.autograd.profiler.profile, "step") and hasattr(profile, "step")


def recorded(step, call_step=True, repeat=1):
    found = []

    def keep(prof):
        found.append(sorted(int(e.name[5:]) for e in prof.events() if e.name.startswith("step ")))

    with profile(
        activities=CPU, schedule=schedule(wait=1, warmup=1, active=3, repeat=repeat), on_trace_ready=keep
    ) as prof:
        for number in range(12):
            with record_function(f"step {number}"):
                step()
            if call_step:
                prof.step()
    return found


@pytest.mark.filterwarnings("ignore:.*clears events at the end")
def test_the_schedule_records_three_steps_once_and_none_without_step(step):
    assert recorded(step) == [[2, 3, 4]] and recorded(step, call_step=False) == []
    assert recorded(step, repeat=0)[:2] == [[2, 3, 4], [7, 8, 9]]


def test_a_trace_grows_with_every_step(step):
    def events(steps):
        with profile(activities=CPU) as prof:
            for _ in range(steps):
                step()
        return len(prof.events())

    assert events(20) > 9 * events(2) > 0


def test_a_card_is_busy_all_the_time_with_kernels_bound_by_memory():
    with gpulab.cuda.use("ghost:H100", quiet=True):
        large = torch.empty(1 << 26, device="cuda")
        verdict = gpulab.profile(lambda: [large.mul_(2) for _ in range(4)]).verdict
    assert (
        verdict.kind == "memory"
        and verdict.rests_on.idle / verdict.rests_on.total < 0.01
        and verdict.shares["compute"] == 0
    )


def test_a_published_trace_is_idle_most_of_the_time_and_never_waits_for_data():
    verdict = bottleneck(read(public("nccl_excerpt")))
    assert verdict.rests_on.idle / verdict.rests_on.total > 0.6
    assert verdict.shares["input"] == 0 and verdict.complaints == ("launch", "communication")


def test_a_full_collection_sees_less_after_a_freeze_and_none_happens_while_it_is_off():
    phases = []

    def note(phase, info):
        phases.append(phase)

    def garbage():
        return [[{"loss": value} for value in range(100)] for _ in range(100)]

    gc.collect()
    gc.callbacks.append(note)
    try:
        kept, on = garbage(), len(phases)
        gc.disable()
        kept = garbage(), kept
        off = len(phases) - on
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    tracked = len(gc.get_objects())
    gc.freeze()
    left = len(gc.get_objects())
    gc.unfreeze()
    assert on > 0 and off == 0 and left < tracked / 10 and kept


def test_the_dashboards_tokens_are_a_few_per_cent_of_two_cards_peak():
    """7B, 32 layers of 4096, sequences of 2048: 6 FLOPs a parameter and token, and attention's."""
    token = 6 * 7e9 + 12 * 32 * 4096 * 2048
    used = {name: 1200 * token / (2 * card_named(name).flops_per_s["bf16"]) for name in ("A100", "H100")}
    assert used == pytest.approx({"A100": 0.087, "H100": 0.027}, abs=0.002)
