"""E18.3 intensity: what some misreadings come to, each with its sentence."""

from collections.abc import Iterator
from fractions import Fraction

from exercises.inference.intensity.expected import (
    ITEM_BYTES,
    attention_of,
    expected,
    linear_of,
    pairs_of,
    products_of,
    tokens_of,
)

Rival = tuple[str, int | Fraction, str]
"""FLOPs or bytes, how many, and what to say of them."""


def rivals(part: str, question: dict) -> Iterator[Rival]:
    yield from (_of_linear if part == "linear" else _of_attention)(question["config"], *question["asked"])


def _of_linear(config: dict, phase: str, batch: int, seq: int) -> Iterator[Rival]:
    new = tokens_of(phase, seq)[0]
    yield from _of_products(config, batch, new)
    yield from _of_rows(config, batch, new)
    yield from _both(linear_of(products_of(config, 1, new), config), "That is one request: all of the batch count.")
    if phase == "decode":
        again = (
            "In decode one token of each request passes the layers: those before it have left their keys and values."
        )
        yield from _both(linear_of(products_of(config, batch, seq + 1), config), again)


def _of_products(config: dict, batch: int, new: int) -> Iterator[Rival]:
    *layers, (_, _, width, words) = products_of(config, batch, new)
    heads = {
        "The head was applied to every token: it is to the last of each request alone, in prefill too.": (
            1,
            batch * new,
        ),
        "The head was applied to one token in all: it is to the last of each request.": (1, 1),
        "The output head is missing: it is a product like the others.": (0, 1),
        "The head was counted in every layer: one follows the last layer.": (config["layers"], batch),
    }
    for sentence, (times, rows) in heads.items():
        yield from _both(linear_of([*layers, (times, rows, width, words)], config), sentence)
    embedding = [*layers, (1, batch, width, words), (1, batch * new, words, width)]
    yield from _both(linear_of(embedding, config), "An embedding is looked up, and no product.")
    for change in ({}, {"hidden": 4 * width}):
        *first, _, output, down, head = products_of(config | change, batch, new)
        two = "An MLP with a gate has three matrices, and two were counted."
        yield from _both(linear_of([*first, output, down, head], config), two)
    for sentence, change in _OTHER_SIZES.items():
        yield from _both(linear_of(products_of(config | change(config), batch, new), config), sentence)


_OTHER_SIZES = {
    "Keys and values have `kv_heads` heads, and not as many as the queries.": lambda c: {"kv_heads": c["heads"]},
    "The heads need not fill the width: each has `head_dim`.": lambda c: {"head_dim": Fraction(c["width"], c["heads"])},
    "The MLP's `hidden` is a size of its own, and not four times the width.": lambda c: {"hidden": 4 * c["width"]},
    "That is one layer: all of them count.": lambda c: {"layers": 1},
}


def _both(counts: tuple[int, int], sentence: str) -> Iterator[Rival]:
    yield from ((key, count, sentence) for key, count in zip(("flops", "bytes"), counts))


def _of_rows(config: dict, batch: int, new: int) -> Iterator[Rival]:
    products, item = products_of(config, batch, new), ITEM_BYTES[config["dtype"]]
    nbytes = linear_of(products, config)[1]
    weights = linear_of([(times, 0, *sizes) for times, _, *sizes in products], config)[1]
    again = "Weights were read again: each product reads its own once for the whole batch, and for all of its tokens."
    of_rows = sum(
        times * rows * (inputs * outputs * config["weight_bits"] // 8) for times, rows, inputs, outputs in products
    )
    yield from (("bytes", nbytes - weights + read, again) for read in (batch * weights, batch * new * weights, of_rows))
    few = linear_of([(times, min(rows, batch), *sizes) for times, rows, *sizes in products], config)[1]
    yield "bytes", few, "Inputs and outputs have a row for each token, and not for each request."
    yield "bytes", weights, "Each product also reads an input and writes an output, a row for each token."
    inputs = sum(times * rows * size * item for times, rows, size, _ in products)
    yield "bytes", weights + inputs, "Each product also writes its output."
    yield "bytes", nbytes - inputs, "Each product also reads its input."
    once = "Products that take the same input read it each for itself: each is a kernel of its own."
    row = config["layers"] * batch * new * config["width"] * item
    yield from (("bytes", nbytes - times * row, once) for times in (1, 2, 3))


def _of_attention(config: dict, phase: str, batch: int, seq: int) -> Iterator[Rival]:
    yield from _of_pairs(config, batch, *tokens_of(phase, seq))
    yield from _of_cache(config, batch, *tokens_of(phase, seq))


def _of_pairs(config: dict, batch: int, new: int, before: int) -> Iterator[Rival]:
    right, each = pairs_of(new, before), 4 * config["layers"] * config["heads"] * config["head_dim"]
    yield "flops", each * right, "That is one request: all of the batch count."
    yield "flops", each * batch * right // config["layers"], "That is one layer: all of them count."
    if new > 1:
        yield (
            "flops",
            each * batch * new * new,
            "All pairs were counted: the causal mask leaves out nearly half of them.",
        )
    itself = "A token attends to itself, too: these pairs are missing, or half of them are."
    yield "flops", each * batch * (right - new), itself
    yield "flops", each // 2 * batch * new * (new + before), itself
    if new > 1:
        yield "flops", each * pairs_of(batch * new, 0), "A token sees none of the other requests."
    of_keys = "Every query head has pairs of its own, two products for each, however many heads share keys and values."
    yield "flops", each * batch * right * config["kv_heads"] // config["heads"], of_keys
    mixed = each * batch * right * (config["heads"] + config["kv_heads"]) // (2 * config["heads"])
    yield "flops", mixed, of_keys


def _of_cache(config: dict, batch: int, new: int, before: int) -> Iterator[Rival]:
    def nbytes(rows: int, written: int, read: int, **named: int) -> int:
        return attention_of(config | named, batch, 0, rows, written, read)[1]

    held = before + new
    right, queries = nbytes(new, new, held), nbytes(new, 0, 0)
    shared = "Keys and values were counted for every query head: those that share a head of them have it once."
    all_heads = [nbytes(0, *of, kv_heads=config["heads"]) for of in ((new, 0), (0, held))]
    yield "bytes", queries + nbytes(0, new, 0) + all_heads[1], shared
    yield "bytes", queries + sum(all_heads), shared
    yield "bytes", right + sum(all_heads), shared
    yield (
        "bytes",
        nbytes(new, 0, held),
        "Keys and values of the new tokens are written to the cache, and read with all others: both count.",
    )
    yield "bytes", nbytes(new, new, 0), "Keys and values of all tokens are read from the cache, too."
    yield "bytes", nbytes(new, new, before), "Keys and values of all tokens are read, those of the new ones among them."
    yield (
        "bytes",
        nbytes(new, held, held),
        "Only the new tokens' keys and values are written: the others are in the cache.",
    )
    yield "bytes", nbytes(0, new, held), "The queries of the new tokens are read, and their outputs are written."
    yield "bytes", nbytes(held, new, held), "Queries and outputs are those of the new tokens alone."
    shared_out = "Each request has a cache of its own, which no other reads."
    yield (
        "bytes",
        queries + config["layers"] * batch * ((right - queries) // (config["layers"] * batch) // batch),
        shared_out,
    )
    yield "bytes", queries + (right - queries) // 2, "There are keys, and there are values."
    score = config["layers"] * batch * config["heads"] * ITEM_BYTES[config["dtype"]]
    on_chip = "Scores stay on the chip: they are no bytes of device memory."
    counted = [times * pairs for times in (1, 2, 4) for pairs in (new * held, pairs_of(new, before))]
    yield from (("bytes", right + score * count, on_chip) for count in counted)


def of_other_formats(part: str, question: dict) -> Iterator[tuple[int | Fraction, str]]:
    """Bytes of a part in which something is counted in the format of something else."""
    config, (phase, batch, seq) = question["config"], question["asked"]
    linear = part == "linear"
    name, what = ("weight_bits", "Weights") if linear else ("kv_bits", "Keys and values")
    formats = {8 * ITEM_BYTES[config["dtype"]]: "`dtype`", 16: "16 bits"} | (
        {} if linear else {config["weight_bits"]: "the weights"}
    )
    for bits, of in formats.items():
        told = expected(phase, batch, seq, config | {name: bits})[part][1]
        yield told, f"{what} were counted in the format of {of}: they have `{name}`."
    rows, other = ("inputs and outputs", "the weights") if linear else ("queries and outputs", "the cache")
    right, elements = (
        expected(phase, batch, seq, config)[part][1],
        _elements(part, config, batch, tokens_of(phase, seq)[0]),
    )
    kept = right - elements * ITEM_BYTES[config["dtype"]]
    yield (
        kept + Fraction(elements * config[name], 8),
        f"The {rows} were counted in the format of {other}: they have `dtype`.",
    )
    yield kept + 2 * elements, f"The {rows} were counted in 16 bits: they have `dtype`."


def _elements(part: str, config: dict, batch: int, new: int) -> int:
    """Of the activations."""
    if part == "attention":
        return config["layers"] * batch * 2 * new * config["heads"] * config["head_dim"]
    return sum(times * rows * (inputs + outputs) for times, rows, inputs, outputs in products_of(config, batch, new))
