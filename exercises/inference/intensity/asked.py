"""E18.3 intensity: a question, of a pass, a decoder and a card."""

from autograder.core.sampler import Sampler

PHASES = ("prefill", "decode")


def small(sampler: Sampler, group: int = 2) -> dict:
    """Sizes of a decoder that is run. No two are alike, and the heads together are narrower than the stream or wider."""
    kv_heads, head_dim = sampler.integer(2, 3), sampler.choice([8, 16, 24])
    together = group * kv_heads * head_dim
    return {
        "layers": sampler.integer(2, 3),
        "width": sampler.choice([together - 2, together + 2, 2 * together]),
        "heads": group * kv_heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "hidden": 2 * sampler.integer(90, 140) + 1,
        "vocabulary": 2 * sampler.integer(30, 60) + 1,
    }


def large(sampler: Sampler, group: int | None = None) -> dict:
    group, kv_heads = group or sampler.integer(2, 12), sampler.integer(2, 8)
    return {
        "layers": sampler.integer(20, 126),
        "width": 2 * sampler.integer(1000, 4000),
        "heads": group * kv_heads,
        "kv_heads": kv_heads,
        "head_dim": sampler.choice([64, 96, 128]),
        "hidden": sampler.integer(4000, 20_000),
        "vocabulary": sampler.integer(30_000, 250_000),
    }


def config_of(sizes: dict, dtype: str = "bfloat16", weight_bits: int = 16, kv_bits: int = 16) -> dict:
    return {**sizes, "dtype": dtype, "weight_bits": weight_bits, "kv_bits": kv_bits}


def card_of(sampler: Sampler, dtype: str, bandwidth: int = 0, peak: int = 0) -> dict:
    """Every number of another size, also the peaks of other dtypes, some of which have no dense or no sparse one."""
    bandwidth = bandwidth or sampler.integer(3 * 10**11, 8 * 10**12)
    peak = peak or sampler.integer(20, 900) * bandwidth // 3
    known = {"float16": 4, "bfloat16": 6, "int8": 12, "float8_e4m3fn": 11, "float32": 1}
    dense = {name: peak * sampler.integer(13, 39) // 7 * many // known[dtype] + 1 for name, many in known.items()} | {
        dtype: peak
    }
    sparse = {name: 2 * rate for name, rate in dense.items() if name != "float32"} | {"uint8": 9 * peak}
    return {
        "dense": dict(sampler.permutation(list(dense.items()))),
        "sparse": sparse,
        "bytes_per_s": bandwidth,
        "link_bytes_per_s": sampler.choice([bandwidth // sampler.integer(20, 70), 3 * bandwidth]),
        "memory_bytes": sampler.integer(16, 200) << 30,
    }


def question_of(
    sampler: Sampler, phase: str, batch: int, seq: int, config: dict, card: dict | None = None, measure: str = ""
) -> dict:
    """``measure``: the part whose counts are taken from a pass, too."""
    return {
        "asked": [phase, batch, seq],
        "config": config,
        "card": card or card_of(sampler, config["dtype"]),
        "measure": measure,
    }
