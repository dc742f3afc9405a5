"""The profiler on the virtual card alone: what is modelled, on which clock, and what is not."""

import inspect
import json

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import gpulab
import gpulab.cuda

pytestmark = pytest.mark.usefixtures("virtual")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
N = 256


def work():
    x = torch.ones(N, N).cuda()
    return (x @ x).relu().sum().item()


def profiled(**options):
    with profile(activities=BOTH, **options) as p:
        work()
    return p


def plain(p) -> list:
    return [(e.name, e.device_type, e.time_range.start, e.time_range.end) for e in p.events()]


def test_the_same_code_gives_the_same_profile():
    def fresh():
        with gpulab.cuda.use("virtual:H100", quiet=True):
            return plain(profiled())

    assert fresh() == fresh()


def test_the_profilers_kernels_are_those_of_the_observation():
    with gpulab.observe() as seen:
        p = profiled()
    kernels = [e for e in p.events() if e.device_type == DeviceType.CUDA and not e.name.startswith("Memcpy")]
    assert [e.name for e in kernels] == [k.name for k in seen.kernels]
    took = [k.end_us - k.start_us for k in seen.kernels]
    assert [e.time_range.elapsed_us() for e in kernels] == pytest.approx(took, abs=2e-3)


def test_launching_costs_the_runtimes_call_what_the_model_says():
    from gpulab.cards.constants import LAUNCH_US

    rows = {row.key: row for row in profiled().key_averages()}
    row = rows["cudaLaunchKernel"]
    assert row.self_cpu_time_total == pytest.approx(row.count * LAUNCH_US) and rows["aten::mm"].self_cpu_time_total == 0


def test_a_replayed_graph_is_one_call_and_all_its_kernels():
    x, graph = torch.ones(N, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ((x + 1) * 2).relu()
    with profile(activities=BOTH) as p:
        graph.replay()
    rows = {row.key: row.count for row in p.key_averages()}
    assert rows["cudaGraphLaunch"] == 1 and "cudaLaunchKernel" not in rows
    assert rows["aten.add"] == rows["aten.mul"] == rows["aten.relu"] == 1


def test_the_trace_says_that_it_is_modelled(tmp_path):
    path = tmp_path / "trace.json"
    profiled().export_chrome_trace(str(path))
    document = json.loads(path.read_text())
    assert "machine model" in document["modelled"] and "(virtual)" in document["deviceProperties"][0]["name"]


def test_the_stack_leads_to_the_callers_line():
    (product,) = [e for e in profiled(with_stack=True).events() if e.name == "aten::mm"]
    assert "test_profiler_modelled.py" in product.stack[0] and product.stack[0].endswith(": work")


def test_one_recording_at_a_time():
    with profile(activities=BOTH):
        with pytest.raises(RuntimeError, match="already enabled"):
            profile(activities=BOTH).start()


REFUSED = {
    "profile_memory": lambda: profiled(profile_memory=True),
    "with_modules": lambda: profiled(with_modules=True),
    "without kineto": lambda: torch.autograd.profiler.profile(use_device="cuda").__enter__(),
    "emit_nvtx": lambda: torch.autograd.profiler.emit_nvtx().__enter__(),
}
if "use_python_export" in inspect.signature(profile.export_chrome_trace).parameters:
    REFUSED["python export"] = lambda: profiled().export_chrome_trace("never.json", use_python_export=True)


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_modelled_says_so(what):
    with pytest.raises(gpulab.cuda.NotModelled):
        REFUSED[what]()
