"""What plans there are for a specification, and what each takes: the statement of E22.2, computed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES
from gpulab.serving.costs import decode, least_seconds

WEIGHTS, GRADIENTS, OPTIMIZER = 2, 2, 12
"""Bytes a parameter: bf16, bf16, and in float32 a copy of the weights and two moments."""
DAY_S, HOUR_S = 86_400, 3_600
TRAINING, SERVING = ("memory", "network", "time", "cost"), ("memory", "latency", "gpus", "cost")
"""In the order in which a refusal names them."""


@dataclass(frozen=True)
class Layout:
    """Degrees, ZeRO's stage, and sequences of a micro-batch."""

    tensor: int
    pipeline: int
    data: int
    stage: int
    micro_batch: int

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def fits_nodes(spec: dict, tensor: int) -> bool:
    """Whether a tensor-parallel group is a part of one node, and every GPU of it has whole heads of keys."""
    return tensor >= 1 and spec["node_gpus"] % tensor == 0 and SHAPES[spec["shape"]].kv_heads % tensor == 0


def is_legal(spec: dict, layout: Layout) -> bool:
    shape = SHAPES[spec["shape"]]
    if min(layout.tensor, layout.pipeline, layout.data, layout.micro_batch) < 1 or layout.stage not in (0, 1, 2, 3):
        return False
    whole = shape.layers % layout.pipeline == 0 and spec["batch"] % (layout.data * layout.micro_batch) == 0
    there = layout.gpus <= spec["nodes"] * spec["node_gpus"]
    return fits_nodes(spec, layout.tensor) and whole and there and (layout.pipeline == 1 or layout.stage <= 1)


def layouts(spec: dict) -> Iterator[Layout]:
    """All that are legal."""
    shape = SHAPES[spec["shape"]]
    for tensor in divisors(spec["node_gpus"]):
        for pipeline in divisors(shape.layers):
            for data in divisors(spec["batch"]):
                if not fits_nodes(spec, tensor) or tensor * pipeline * data > spec["nodes"] * spec["node_gpus"]:
                    continue
                for stage in range(4 if pipeline == 1 else 2):
                    for micro in divisors(spec["batch"] // data):
                        yield Layout(tensor, pipeline, data, stage, micro)


def micro_batches(spec: dict, layout: Layout) -> int:
    """Of each GPU in a step."""
    return spec["batch"] // (layout.data * layout.micro_batch)


def held_bytes(spec: dict, layout: Layout) -> float:
    """On the fullest GPU."""
    shape = SHAPES[spec["shape"]]
    shares = (layout.data if layout.stage >= least else 1 for least in (3, 2, 1))
    state = sum(size / share for size, share in zip((WEIGHTS, GRADIENTS, OPTIMIZER), shares, strict=True))
    in_flight = min(layout.pipeline, micro_batches(spec, layout))
    kept = layout.micro_batch * spec["sequence"] * spec["layer_bytes"] * shape.layers / layout.pipeline * in_flight
    return shape.parameters * state / (layout.tensor * layout.pipeline) + kept / layout.tensor


def step_s(spec: dict, layout: Layout) -> float:
    """Computing a step, the pipeline's idle time with it."""
    m = micro_batches(spec, layout)
    flops = 6 * SHAPES[spec["shape"]].parameters * spec["batch"] * spec["sequence"]
    return flops / (layout.gpus * CARDS[spec["card"]].flops_per_s["bf16"] * spec["mfu"]) * (m + layout.pipeline - 1) / m


def crossing_s(spec: dict, layout: Layout) -> float:
    """What data parallelism sends in a step, through a GPU's share of the network."""
    times = 2 if layout.stage < 3 else 2 * micro_batches(spec, layout) + 1
    sent = (
        times
        * WEIGHTS
        * SHAPES[spec["shape"]].parameters
        / (layout.tensor * layout.pipeline)
        * (layout.data - 1)
        / layout.data
    )
    return sent / spec["port_bytes_per_s"]


def best_interval_s(spec: dict, layout: Layout) -> float:
    return sqrt(2 * spec["save_s"] * spec["gpu_mtbf_s"] / layout.gpus)


def wasted(spec: dict, layout: Layout, every_s: float) -> float:
    """Of the time: saving, and on average half an interval done again at each failure."""
    return spec["save_s"] / every_s + every_s * layout.gpus / (2 * spec["gpu_mtbf_s"])


def days(spec: dict, layout: Layout, every_s: float) -> float:
    steps = spec["tokens"] / (spec["batch"] * spec["sequence"])
    return steps * step_s(spec, layout) * (1 + wasted(spec, layout, every_s)) / DAY_S


def dollars(spec: dict, layout: Layout, every_s: float) -> float:
    return days(spec, layout, every_s) * DAY_S / HOUR_S * layout.gpus * spec["dollars_per_gpu_hour"]


def meets(spec: dict, layout: Layout, constraint: str) -> bool:
    every_s = best_interval_s(spec, layout)
    if constraint == "memory":
        return held_bytes(spec, layout) + spec["reserve_bytes"] <= CARDS[spec["card"]].memory_bytes
    if constraint == "network":
        return crossing_s(spec, layout) <= step_s(spec, layout)
    if constraint == "time":
        return days(spec, layout, every_s) <= spec["max_days"]
    return dollars(spec, layout, every_s) <= spec["max_dollars"]


def reviewed(spec: dict) -> tuple[list, str | None]:
    """The plans that meet everything; or none, and the constraint that binds."""
    return _reviewed(tuple(spec.items()))


@lru_cache(maxsize=64)
def _reviewed(items: tuple[tuple[str, object], ...]) -> tuple[list, str | None]:
    spec = dict(items)
    serves = spec["mode"] == "serve"
    found = list(services(spec) if serves else layouts(spec))
    for constraint in SERVING if serves else TRAINING:
        found = [plan for plan in found if (serves_within if serves else meets)(spec, plan, constraint)]
        if not found:
            return [], constraint
    return found, None


# ---- serving


@dataclass(frozen=True)
class Service:
    """Replicas of ``tensor`` GPUs, each with a batch of so many sequences."""

    tensor: int
    replicas: int
    batch: int


def services(spec: dict) -> Iterator[Service]:
    """For each batch as few replicas as have room for all users."""
    for tensor in divisors(spec["node_gpus"]):
        if fits_nodes(spec, tensor):
            for batch in range(1, spec["users"] + 1):
                yield Service(tensor, -(-spec["users"] // batch), batch)


def served_bytes(spec: dict, service: Service) -> float:
    """On each GPU: its share of the weights, and of the keys and values of the whole batch."""
    shape = SHAPES[spec["shape"]]
    return 2 * (shape.parameters + service.batch * spec["context"] * shape.cached) / service.tensor


def between_tokens_s(spec: dict, service: Service) -> float:
    shape = SHAPES[spec["shape"]]
    least = least_seconds(shape, decode(service.batch, spec["context"]), CARDS[spec["card"]], "bf16")
    talking = 2 * shape.layers * spec["all_reduce_s"] if service.tensor > 1 else 0
    return least / (service.tensor * spec["share"]) + talking


def dollars_per_hour(spec: dict, service: Service) -> float:
    return service.tensor * service.replicas * spec["dollars_per_gpu_hour"]


def serves_within(spec: dict, service: Service, constraint: str) -> bool:
    if constraint == "memory":
        return served_bytes(spec, service) + spec["reserve_bytes"] <= CARDS[spec["card"]].memory_bytes
    if constraint == "latency":
        return between_tokens_s(spec, service) <= spec["max_between_tokens_s"]
    if constraint == "gpus":
        return service.tensor * service.replicas <= spec["nodes"] * spec["node_gpus"]
    return dollars_per_hour(spec, service) <= spec["max_dollars_per_hour"]
