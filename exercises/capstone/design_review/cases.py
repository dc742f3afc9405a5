"""Specifications for E22.2: some that can be met, close to their limits, and some that no plan meets."""

from collections.abc import Iterator

from autograder.core.sampler import Sampler
from exercises.capstone.design_review import designs as expected
from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES, Job
from gpulab.memory.activations import layer

PORT_BYTES_PER_S = {"A100": 24e9, "H100": 48e9}
SMALL, LARGE = ("Llama 2 7B", "Llama 3.1 8B"), ("Llama 2 70B", "Llama 3.1 70B")


def _machines(sampler: Sampler, shape: str, card: str, nodes: int) -> dict:
    return {
        "shape": shape,
        "card": card,
        "node_gpus": 8,
        "nodes": nodes,
        "reserve_bytes": sampler.integer(4, 8) << 30,
        "dollars_per_gpu_hour": sampler.integer(150, 400) / 100,
        "sheet_flops_per_s": 2 * CARDS[card].flops_per_s["bf16"],
    }


def _training(sampler: Sampler, shape: str, card: str, nodes: int, batch: int) -> dict:
    """With no limits to time and cost."""
    return _machines(sampler, shape, card, nodes) | {
        "mode": "train", "tokens": sampler.integer(100, 2000) * 10**9, "batch": batch, "sequence": 4096,
        "layer_bytes": layer(Job(SHAPES[shape], precision="bf16 with master weights")), "mfu": sampler.integer(30, 50) / 100,
        "port_bytes_per_s": PORT_BYTES_PER_S[card], "save_s": float(sampler.integer(20, 200)),
        "gpu_mtbf_s": sampler.integer(20, 80) * 3.6e6, "max_days": 1e9, "max_dollars": 1e18,
    }  # fmt: skip


def _taken(spec: dict, layout: expected.Layout) -> tuple[float, float]:
    every_s = expected.best_interval_s(spec, layout)
    return expected.days(spec, layout, every_s), expected.dollars(spec, layout, every_s)


def _limited(sampler: Sampler, spec: dict) -> dict:
    """The days that all machines together need, and a little more; the dollars of the cheapest, and a little more."""
    fastest = min(_taken(spec, layout)[0] for layout in expected.reviewed(spec)[0])
    spec = spec | {"max_days": fastest * sampler.integer(120, 170) / 100}
    return spec | {"max_dollars": 1.2 * min(_taken(spec, layout)[1] for layout in expected.reviewed(spec)[0])}


def trainings(sampler: Sampler) -> Iterator[dict]:
    for shape, card, nodes in sampler.shuffled(
        (SMALL[0], "A100", 2), (SMALL[1], "H100", 4), (LARGE[0], "H100", 16), (LARGE[1], "A100", 32)
    ):
        yield _limited(sampler, _training(sampler, shape, card, nodes, sampler.choice((256, 512, 768))))


def untrainable(sampler: Sampler) -> Iterator[dict]:
    """One for each constraint: too few GPUs to hold it, a network that is too slow, too few days, too little money."""
    yield _training(sampler, sampler.choice(LARGE), "H100", 1, 512)
    slow = _training(sampler, sampler.choice(LARGE), "H100", 3, 384)
    yield slow | {"port_bytes_per_s": 1e6, "reserve_bytes": 4 << 30}
    late = _limited(sampler, _training(sampler, sampler.choice(SMALL), "A100", 2, 256))
    yield late | {"max_days": late["max_days"] / 2}
    dear = _limited(sampler, _training(sampler, sampler.choice(LARGE), "H100", 16, 512))
    yield dear | {"max_dollars": dear["max_dollars"] / 1.4}


def _serving(sampler: Sampler, shape: str, card: str, nodes: int, users: int) -> dict:
    """With no limits to time and cost."""
    return _machines(sampler, shape, card, nodes) | {
        "mode": "serve",
        "users": users,
        "context": sampler.choice((2048, 3000, 4096)),
        "share": sampler.integer(50, 80) / 100,
        "all_reduce_s": sampler.integer(6, 15) / 1e6,
        "max_between_tokens_s": 1e9,
        "max_dollars_per_hour": 1e18,
    }


def _bounded(sampler: Sampler, spec: dict, tight: bool = True) -> dict:
    """The time of the fastest service that fits, and a little more, or so much more that memory binds; the dollars of the cheapest within it."""
    fast = min(expected.between_tokens_s(spec, service) for service in expected.reviewed(spec)[0])
    spec = spec | {"max_between_tokens_s": fast * sampler.integer(150, 300) / 100 if tight else 1.0}
    return spec | {
        "max_dollars_per_hour": 1.5
        * min(expected.dollars_per_hour(spec, service) for service in expected.reviewed(spec)[0])
    }


def servings(sampler: Sampler) -> Iterator[dict]:
    """Each model bound by time and by memory."""
    for shape, card, users in sampler.shuffled(
        (SMALL[0], "A100", 60), (SMALL[1], "H100", 240), (LARGE[0], "H100", 130), (LARGE[1], "A100", 130)
    ):
        for tight in sampler.shuffled(True, False):
            yield _bounded(sampler, _serving(sampler, shape, card, 40, users + sampler.integer(0, 40)), tight)


def unservable(sampler: Sampler) -> Iterator[dict]:
    """One for each constraint: a context that no node holds, tokens too fast, too few GPUs, too little money."""
    yield _serving(sampler, sampler.choice(LARGE), "H100", 4, 20) | {"context": 10**7}
    fast = _bounded(sampler, _serving(sampler, sampler.choice(LARGE), "A100", 40, 100))
    yield fast | {"max_between_tokens_s": fast["max_between_tokens_s"] / 20}
    few = _bounded(sampler, _serving(sampler, SMALL[0], "A100", 40, 100), tight=False)
    yield few | {"nodes": 1, "context": 4096, "users": 400}
    dear = _bounded(sampler, _serving(sampler, sampler.choice(LARGE), "H100", 40, 100), tight=False)
    yield dear | {"max_dollars_per_hour": dear["max_dollars_per_hour"] / 1.8}
