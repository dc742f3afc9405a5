"""The model's constants, fitted on whatever ``device="cuda"`` means."""

import torch

from evidence.timing import behind_a_busy_device_us, device_us, host_us, line_through
from gpulab.cards import constants as assumed

_SIZES = [1 << power for power in (12, 16, 20, 22, 24, 25)]
_MIB = 1 << 20


def of_kernels() -> dict[str, dict]:
    """Each constant of launches, waits, kernels and memory: its value here, its unit, what the model assumes.

    ``assumed`` is None for what the model takes from the card's table.
    """
    found = {
        "launch": (_launch_us(), "us", assumed.LAUNCH_US),
        "kernel floor": (_kernel_floor_us(), "us", assumed.KERNEL_FLOOR_US),
        "synchronize, nothing to wait for": (host_us(torch.cuda.synchronize, 100), "us", assumed.SYNC_US),
        "event record": (_event_record_us(), "us", assumed.CALL_US),
        "cudaMalloc": (_cuda_malloc_us(), "us", assumed.CUDA_MALLOC_US),
        "device memory": (_bandwidth(), "bytes/s", None),
    }
    for name, dtype, tf32 in _FORMATS:
        found[f"matmul, {name}"] = (_product_rate(dtype, tf32), "FLOP/s", None)
    return _named(found)


def of_copies() -> dict[str, dict]:
    """The same of copies between host and device. Needs values: no ghost card has them."""
    found = {}
    for kind in ("HtoD", "DtoH"):
        latency, rate = _copies(kind, pinned=True)
        found[f"{kind} pinned, latency"] = (latency, "us", assumed.COPY_LATENCY_US)
        found[f"{kind} pinned, rate"] = (rate, "bytes/s", None)
        latency, rate = _copies(kind, pinned=False)
        found[f"{kind} pageable, latency"] = (latency, "us", assumed.COPY_LATENCY_US)
        found[f"{kind} pageable, rate"] = (rate, "bytes/s", assumed.PAGEABLE_BYTES_PER_S)
    return _named(found)


def _named(found: dict[str, tuple]) -> dict[str, dict]:
    return {name: {"value": value, "unit": unit, "assumed": was} for name, (value, unit, was) in found.items()}


_FORMATS = [
    ("fp32", torch.float32, False),
    ("tf32", torch.float32, True),
    ("fp16", torch.float16, False),
    ("bf16", torch.bfloat16, False),
]


def _launch_us() -> float:
    x = torch.ones(1024, device="cuda")
    return host_us(lambda: x.add_(1.0), calls=200)


def _kernel_floor_us() -> float:
    x = torch.ones(1, device="cuda")
    return behind_a_busy_device_us(lambda: x.add_(1.0), calls=200)


def _event_record_us() -> float:
    event = torch.cuda.Event()
    return host_us(event.record, calls=200)


def _cuda_malloc_us() -> float:
    def fresh() -> list[torch.Tensor]:
        return [torch.empty(64 * _MIB, device="cuda", dtype=torch.uint8) for _ in range(8)]

    torch.cuda.empty_cache()
    with_malloc = host_us(lambda: (len(fresh()), torch.cuda.empty_cache()), calls=1)
    give_back = host_us(torch.cuda.empty_cache, calls=1)
    return max(0.0, with_malloc - give_back) / 8


def _bandwidth() -> float:
    source = torch.ones(64 * _MIB, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / (device_us(lambda: target.copy_(source)) / 1e6)


def _copies(kind: str, pinned: bool) -> tuple[float, float]:
    """Latency in microseconds and rate in bytes per second of copies between host and device."""
    points = []
    for nbytes in _SIZES:
        host = torch.ones(nbytes, dtype=torch.uint8)
        host = host.pin_memory() if pinned else host
        device = torch.ones(nbytes, dtype=torch.uint8, device="cuda")
        source, target = (host, device) if kind == "HtoD" else (device, host)
        if pinned:
            us = behind_a_busy_device_us(lambda: target.copy_(source, non_blocking=True), calls=20)
        else:
            us = host_us(lambda: target.copy_(source), calls=10)
        points.append((float(nbytes), us))
    latency, us_a_byte = line_through(points)
    return latency, 1e6 / us_a_byte


def _product_rate(dtype: torch.dtype, tf32: bool) -> float:
    n, before = 8192, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        a = torch.randn(n, n, device="cuda").to(dtype)
        return 2 * n**3 / (device_us(lambda: a @ a, rounds=3, warmups=1) / 1e6)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
