"""``torch.profiler`` with device activity: the same facts of a profile on either runtime."""

import json
from contextlib import nullcontext

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from gpulab.cuda.device import state

pytestmark = pytest.mark.usefixtures("cuda")
BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
N = 256


def work():
    x = torch.ones(N, N).cuda()
    y = (x @ x).relu()
    torch.cuda.synchronize()
    return y.sum().item()


def profiled(function=work, activities=BOTH, **options):
    function()
    with profile(activities=activities, **options) as p:
        function()
    return p


def averages(p) -> dict:
    return {(row.key, row.device_type): row for row in p.key_averages()}


def on_card(p):
    return [e for e in p.events() if e.device_type == DeviceType.CUDA]


def test_an_operation_has_device_time_and_host_time():
    row = averages(profiled())["aten::mm", DeviceType.CPU]
    assert row.count == 1 and row.device_time_total > 0 and row.cpu_time_total > 0


def test_an_operations_device_time_is_that_of_its_kernels():
    p = profiled()
    (product,) = [e for e in p.events() if e.name == "aten::mm"]
    assert product.device_time_total == pytest.approx(sum(k.duration for k in product.kernels))
    assert product.kernels  # cuBLAS may split a product in two


def composite(name):
    """A GPU's profiler sees such an operation; the virtual card is told of it."""
    return state.device_on().trace.composite(name) if state.is_on() and state.device_on().trace else nullcontext()


def test_an_operation_that_only_calls_others_has_their_device_time_and_none_itself():
    x = torch.ones(N, N).cuda()

    def products():
        for _ in range(2):
            with composite("aten::matmul"):
                torch.matmul(x, x)

    rows = averages(profiled(products))
    outer, inner = (rows[name, DeviceType.CPU] for name in ("aten::matmul", "aten::mm"))
    assert (outer.count, outer.self_device_time_total) == (2, 0)
    assert outer.device_time_total == pytest.approx(inner.device_time_total) and inner.self_device_time_total > 0


@pytest.mark.parametrize("name", ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)"])
def test_a_copy_is_an_event_of_the_device(name):
    assert name in [e.name for e in on_card(profiled())]


def test_a_pinned_copy_says_so():
    pinned = torch.ones(N).pin_memory()
    p = profiled(lambda: pinned.to("cuda", non_blocking=True))
    assert "Memcpy HtoD (Pinned -> Device)" in [e.name for e in on_card(p)]


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaStreamSynchronize"]
)
def test_the_runtimes_calls_are_events_of_the_host(name):
    assert averages(profiled())[name, DeviceType.CPU].count >= 1


def test_a_kernel_starts_after_its_launch():
    p = profiled(lambda: torch.cuda._sleep(100_000))
    launches = [e for e in p.events() if e.name.startswith("cudaLaunchKernel")]
    kernels = [e for e in on_card(p) if "spin_kernel" in e.name]
    assert len(launches) == len(kernels) == 1
    assert kernels[0].time_range.start >= launches[0].time_range.start


def test_a_range_contains_what_ran_in_it():
    def ranged():
        with record_function("my range"):
            work()

    p = profiled(ranged)
    row = averages(p)["my range", DeviceType.CPU]
    product = averages(p)["aten::mm", DeviceType.CPU]
    assert row.count == 1 and row.device_time_total >= product.device_time_total > 0
    assert row.cpu_time_total >= product.cpu_time_total


def test_a_range_is_shown_on_the_device_too():
    def ranged():
        with record_function("my range"):
            work()

    assert ("my range", DeviceType.CUDA) in averages(profiled(ranged))


def test_the_optimizers_step_is_a_range():
    layer = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step():
        layer(torch.ones(1, 4, device="cuda")).sum().backward()
        optimizer.step()

    assert any(key.startswith("Optimizer.step#SGD") for key, _ in averages(profiled(step)))


def test_backward_is_profiled():
    w = torch.ones(N, N, device="cuda", requires_grad=True)
    p = profiled(lambda: (w @ w).sum().backward())
    assert averages(p)["aten::mm", DeviceType.CPU].count == 3


def test_the_table_has_columns_of_the_device():
    text = profiled().key_averages().table(sort_by="self_cuda_time_total", row_limit=5)
    assert "Self CUDA" in text and "CUDA total" in text and "Self CUDA time total:" in text


def test_shapes_group_the_averages():
    p = profiled(record_shapes=True)
    rows = [r for r in p.key_averages(group_by_input_shape=True) if r.key == "aten::mm"]
    assert [row.input_shapes for row in rows] == [[[N, N], [N, N]]]


def test_flops_of_a_product_are_counted():
    assert averages(profiled(with_flops=True))["aten::mm", DeviceType.CPU].flops == 2 * N**3


def test_a_schedule_records_its_active_steps_and_calls_back():
    cycles = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=plan, on_trace_ready=lambda p: cycles.append(averages(p))) as p:
        for _ in range(8):
            work()
            p.step()
    assert len(cycles) == 2
    assert all(rows["aten::mm", DeviceType.CPU].count == 2 for rows in cycles)
    assert any(key.startswith("ProfilerStep") for key, _ in cycles[0])


def test_the_chrome_trace_has_kernels_copies_calls_and_ranges(tmp_path):
    def ranged():
        with record_function("my range"):
            work()

    path = tmp_path / "trace.json"
    profiled(ranged).export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    kinds = {e.get("cat") for e in events}
    assert kinds >= {"cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "user_annotation", "ac2g"}
    kernels = {e["args"]["correlation"] for e in events if e.get("cat") == "kernel"}
    assert kernels <= {e["args"].get("correlation") for e in events if e.get("cat") == "cuda_runtime"}


def test_a_compressed_chrome_trace(tmp_path):
    path = tmp_path / "trace.json.gz"
    profiled().export_chrome_trace(str(path))
    assert path.read_bytes()[:2] == b"\x1f\x8b"


def test_streams_are_told_apart(tmp_path):
    side = torch.cuda.Stream()

    def two():
        torch.ones(N, device="cuda")
        with torch.cuda.stream(side):
            torch.ones(N, device="cuda")

    path = tmp_path / "trace.json"
    profiled(two).export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    assert len({e["args"]["stream"] for e in events if e.get("cat") == "kernel"}) == 2


def test_with_device_activity_alone_operations_are_not_listed():
    p = profiled(activities=[ProfilerActivity.CUDA])
    names = {e.name for e in p.events()}
    assert "aten::mm" not in names and on_card(p)


def test_metadata_reaches_the_trace(tmp_path):
    path = tmp_path / "trace.json"
    with profile(activities=BOTH) as p:
        work()
        p.add_metadata("who", "me")
    p.export_chrome_trace(str(path))
    assert json.loads(path.read_text())["who"] == "me"


def test_device_activity_is_supported_and_taken_without_being_asked_for():
    assert ProfilerActivity.CUDA in torch.profiler.supported_activities()
    assert on_card(profiled(activities=None))


def test_after_the_block_nothing_is_recorded():
    p = profiled()
    before = len(p.events())
    work()
    assert len(p.events()) == before


def test_host_activity_alone_is_pytorchs_own_profile():
    p = profiled(activities=[ProfilerActivity.CPU])
    assert not on_card(p) and any(e.name == "aten::mm" for e in p.events())
