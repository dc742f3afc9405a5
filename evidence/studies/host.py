"""What the host waits for and what it is late for: first calls, waits, streams, graphs, what nvidia-smi shows."""

import time
from collections.abc import Callable

import torch

from evidence.studies import Figures, Rows, Study
from evidence.studies.serving import replayed
from evidence.timing import device_us, host_us
from gpulab.compat.cuda import sleep

_CYCLES = 20_000_000


def _clock(call: Callable[[], object], wait: bool) -> Figures:
    begin = time.perf_counter()
    call()
    if wait:
        torch.cuda.synchronize()
    us = 1e6 * (time.perf_counter() - begin)
    torch.cuda.synchronize()
    return {"us": us}


def one_product() -> Rows:
    a = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()

    def product() -> torch.Tensor:
        return a @ a

    yield "the first of the process, no wait", lambda: _clock(product, wait=False)
    yield "another, no wait", lambda: _clock(product, wait=False)
    yield "another, and a wait", lambda: _clock(product, wait=True)
    yield "between events, many", lambda: {"us": device_us(product)}


def _both(one: Callable, other: Callable, streams: tuple) -> float:
    """From the start of both to the end of both, in microseconds; each in its stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for stream, call in zip(streams, (one, other)):
        stream.wait_event(begin)
        with torch.cuda.stream(stream):
            call()
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3


def _together(call: Callable) -> Figures:
    """Two such calls in one stream and in two: how much of the shorter is hidden."""
    one, other = torch.cuda.Stream(), torch.cuda.Stream()
    _both(call, call, (one, other))
    after = min(_both(call, call, (one, one)) for _ in range(5))
    beside = min(_both(call, call, (one, other)) for _ in range(5))
    return {"one_stream_us": after, "two_streams_us": beside}


def streams() -> Rows:
    large = torch.ones(1 << 27, device="cuda")
    a = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
    yield "two kernels of one thread", lambda: _together(lambda: sleep(_CYCLES))
    yield "two kernels that fill the card, bound by memory", lambda: _together(lambda: large.mul_(1))
    yield "two products of 8192 in bfloat16", lambda: _together(lambda: a @ a)


def _stale(wait: bool) -> Figures:
    """Share of the elements that a second stream reads before the first has written them."""
    x, side = torch.zeros(1 << 20, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    sleep(_CYCLES)
    x.fill_(1.0)
    if wait:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        seen = x.clone()
    torch.cuda.synchronize()
    return {"stale_share": 1.0 - seen.mean().item()}


def races() -> Rows:
    yield "no wait", lambda: _stale(wait=False)
    yield "wait_stream", lambda: _stale(wait=True)


def _hundred() -> Callable[[], None]:
    x = torch.ones(1024, device="cuda")

    def run() -> None:
        for _ in range(100):
            x.add_(1.0)

    return run


def graphs() -> Rows:
    run = _hundred()
    yield "100 small kernels, called", lambda: {"us": device_us(run), "host_us": host_us(run, calls=5)}
    graph = replayed(run)
    yield "100 small kernels, one graph", lambda: {"us": device_us(graph), "host_us": host_us(graph, calls=5)}


def _training(every: int) -> Figures:
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(8192, 1024, device="cuda")

    def fifty() -> None:
        for number in range(50):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            if every and number % every == 0:
                loss.item()

    return {"step_us": device_us(fifty) / 50}


def reading_the_loss() -> Rows:
    yield "never", lambda: _training(0)
    yield "every 50 steps", lambda: _training(50)
    yield "every step", lambda: _training(1)


def _shown(work: Callable[[], object], seconds: float = 1.6) -> Figures:
    """NVML's utilisation while the work is called over and over, the largest of the readings in the second half."""
    readings, begin = [], time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds:
        for _ in range(4):
            work()
        torch.cuda.synchronize()
        if passed > seconds / 2:
            readings.append(torch.cuda.utilization())
    return {"utilization_percent": max(readings), "least_percent": min(readings)}


def utilization() -> Rows:
    large, a = torch.ones(1 << 28, device="cuda"), torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
    yield "one thread that counts cycles", lambda: _shown(lambda: sleep(_CYCLES))
    yield "one multiplication for each number", lambda: _shown(lambda: [large.mul_(1) for _ in range(20)])
    yield "products of 8192 in bfloat16", lambda: _shown(lambda: [a @ a for _ in range(8)])


STUDIES = {
    "timing one product": Study(
        one_product,
        "4096 x 4096 in bfloat16 on the host's clock; the first row is the first product of the process.",
        ("device/streams",),
        "ghost",
    ),
    "two streams": Study(streams, "The least of five, between events.", ("device/streams",), "ghost"),
    "a missing wait": Study(
        races, "A stream copies what another writes 10 ms later; share of old values in the copy.", ("device/streams",)
    ),
    "launches and graphs": Study(
        graphs, "x.add_(1) on 1024 numbers.", ("one_gpu/profiling", "serving/inference"), "virtual"
    ),
    "reading the loss": Study(
        reading_the_loss, "A perceptron 1024-4096-1024, 8192 rows, float32, SGD.", ("one_gpu/profiling",), "ghost"
    ),
    "what utilisation shows": Study(
        utilization, "torch.cuda.utilization() while one kind of work runs all the time.", ("one_gpu/profiling",)
    ),
}
