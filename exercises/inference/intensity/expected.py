"""E18.3 intensity: what is due, added up product by product."""

from fractions import Fraction

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int8": 1}
Products = list[tuple[int, int, int, int]]
Counts = tuple[int, int]


def products_of(config: dict, requests: int, new: int) -> Products:
    """How many, rows, inputs and outputs of a pass's products with weights; the head is the last."""
    queries, keys = config["heads"] * config["head_dim"], config["kv_heads"] * config["head_dim"]
    layers, width, hidden = config["layers"], config["width"], config["hidden"]
    found = [(layers, requests * new, width, outputs) for outputs in (queries, keys, keys, hidden, hidden)]
    found += [(layers, requests * new, inputs, width) for inputs in (queries, hidden)]
    return [*found, (1, requests, width, config["vocabulary"])]


def linear_of(products: Products, config: dict) -> Counts:
    flops, nbytes, item = 0, 0, ITEM_BYTES[config["dtype"]]
    for times, rows, inputs, outputs in products:
        flops += times * 2 * rows * inputs * outputs
        nbytes += times * (inputs * outputs * config["weight_bits"] // 8 + rows * (inputs + outputs) * item)
    return flops, nbytes


def tokens_of(phase: str, seq: int) -> Counts:
    """New ones of a request, and those before them."""
    return (seq, 0) if phase == "prefill" else (1, seq)


def pairs_of(new: int, before: int) -> int:
    return (before + 1 + before + new) * new // 2


def attention_of(config: dict, batch: int, pairs: int, rows: int, written: int, read: int) -> Counts:
    """FLOPs of so many pairs; bytes of queries and outputs, and of keys with values, for so many tokens a request."""
    keys, many = 2 * config["kv_heads"] * config["head_dim"], config["layers"] * batch
    queries = 2 * rows * config["heads"] * config["head_dim"] * ITEM_BYTES[config["dtype"]]
    products = 2 * 2 * config["heads"] * config["head_dim"] * pairs
    return many * products, many * (queries + (written + read) * keys * config["kv_bits"] // 8)


def expected(phase: str, batch: int, seq: int, config: dict) -> dict[str, Counts]:
    """FLOPs and bytes by part."""
    new, before = tokens_of(phase, seq)
    attention = attention_of(config, batch, pairs_of(new, before), rows=new, written=new, read=before + new)
    return {"linear": linear_of(products_of(config, batch, new), config), "attention": attention}


# ---- the batch from which decode is compute-bound


def rates(question: dict) -> Counts:
    """FLOP/s and bytes/s."""
    return question["card"]["dense"][question["config"]["dtype"]], question["card"]["bytes_per_s"]


def line_of(config: dict, phase: str = "decode", seq: int = 1) -> tuple[int, int, int, int]:
    """FLOPs and bytes of the linear layers over the batch: what there is without a request, and what each adds."""
    (one, some), (two, more) = (expected(phase, batch, seq, config)["linear"] for batch in (1, 2))
    return 2 * one - two, two - one, 2 * some - more, more - some


def exact_crossing(line: tuple, peak: int, bandwidth: int) -> Fraction | None:
    """Where FLOPs and bytes take the same time; None where they never do."""
    at_once, flops, weights, row = line
    gain = flops * bandwidth - row * peak
    return Fraction(weights * peak - at_once * bandwidth) / gain if gain > 0 else None


def crossing(line: tuple, peak: int, bandwidth: int) -> int | None:
    exact = exact_crossing(line, peak, bandwidth)
    return None if exact is None else max(1, -(-exact.numerator // exact.denominator))


def crossover(question: dict) -> int | None:
    return crossing(line_of(question["config"]), *rates(question))
