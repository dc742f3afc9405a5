"""Times on whatever ``device="cuda"`` means: between two events, or on the host's clock."""

import gc
import statistics
import time
from collections.abc import Callable

import torch

import gpulab.cuda
from gpulab.compat.cuda import sleep

_ROUND_US = 20_000
_MOST_CALLS = 200
_FLUSH_BYTES = 256 << 20
_HEAD_START_CYCLES = 2_000_000


def device_us(function: Callable[[], object], rounds: int = 5, warmups: int = 3) -> float:
    """Microseconds a call between two events, in a run of calls; the median of ``rounds``.

    The model's clock has no noise: there one round is enough.
    """
    if gpulab.cuda.current() != "real":
        rounds, warmups = 1, 1
    for _ in range(warmups):
        function()
    first = _between_events(function, 1)
    if gpulab.cuda.current() != "real" and first > _ROUND_US:
        return first
    calls = _calls_for_a_round(first)
    return statistics.median(_between_events(function, calls) / calls for _ in range(rounds))


def _between_events(function: Callable[[], object], calls: int) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3


def _calls_for_a_round(us: float) -> int:
    return max(2, min(_MOST_CALLS, int(_ROUND_US / max(us, 1.0))))


def behind_a_busy_device_us(function: Callable[[], object], calls: int) -> float:
    """Microseconds of device time a call, once the host is ahead: all calls are queued first."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    function()
    torch.cuda.synchronize()
    sleep(50_000_000)
    begin.record()
    for _ in range(calls):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / calls


def interleaved_us(functions: dict[str, Callable[[], object]], warmups: int = 3) -> dict[str, dict[str, float]]:
    """Microseconds of one call of each function: ``median``, ``least`` and ``most`` of ``repeats()`` rounds.

    A round calls each in turn, between two events of its own; before each call the L2 cache is
    flushed. The device is kept busy until the host has queued the call: what the host takes to
    launch it does not count.
    """
    for function in functions.values():
        for _ in range(min(warmups, repeats())):
            function()
    flush = torch.empty(_FLUSH_BYTES if repeats() > 1 else 1, dtype=torch.uint8, device="cuda")
    events: dict[str, list] = {name: [] for name in functions}
    for _ in range(repeats()):
        for name, function in functions.items():
            events[name].append(_queued(function, flush))
    torch.cuda.synchronize()
    times = {name: [begin.elapsed_time(end) * 1e3 for begin, end in pairs] for name, pairs in events.items()}
    return {name: {"median": statistics.median(us), "least": min(us), "most": max(us)} for name, us in times.items()}


def repeats() -> int:
    """How often each call is timed. The model's clock has no noise: there once is enough."""
    return 20 if gpulab.cuda.current() == "real" else 1


def _queued(function: Callable[[], object], flush: torch.Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    sleep(_HEAD_START_CYCLES)
    flush.zero_()
    begin.record()
    function()
    end.record()
    return begin, end


def host_us(function: Callable[[], object], calls: int, rounds: int = 5) -> float:
    """Microseconds of the host a call, the device not waited for; the median of ``rounds``."""
    function()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - begin) * 1e6 / calls)
    torch.cuda.synchronize()
    return statistics.median(times)


def peak_bytes(function: Callable[[], object]) -> int:
    """Most device memory allocated during one call, what was there before included."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def line_through(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope that minimise the sum of squared *relative* residuals."""
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    above = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points))
    slope = above / sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points))
    return mean_y - slope * mean_x, slope
