"""E18.3 intensity: cases and judge. What is due is added up product by product."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isfinite
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask

_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "int8": 1}
_PHASES = ("prefill", "decode")
_PARTS = ("linear", "attention")
_NEAR = Fraction(1, 10**9)
_FAR = 10**5
"""Times what is due: no misreading of a pass counts so much or so little."""
_ANOTHER = (
    "The passes that were made are not those of the given decoder: were its cell's functions changed further down?"
)


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("linear", sampler.permutation([*_passes(sampler), *_huge(sampler)]))
    yield ask("attention", sampler.permutation([*_attended(sampler), *_huge(sampler)]))
    yield ask("formats", sampler.permutation(list(_of_unlike_bits(sampler))))
    yield ask("bound", sampler.permutation([*_both_sides(sampler), *_ties(sampler)]))
    yield ask("crossover", sampler.permutation(list(_collectives(sampler))))
    refused, allowed = sampler.permutation(list(_refused(sampler))), list(_just_allowed(sampler))
    for half in range(2):
        yield ask("errors", refused[half::2], raises="ValueError")
        yield ask("errors", allowed[half::2])


def _small(sampler: Sampler, group: int = 2) -> dict:
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


def _large(sampler: Sampler, group: int | None = None) -> dict:
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


def _config(sizes: dict, dtype: str = "bfloat16", weight_bits: int = 16, kv_bits: int = 16) -> dict:
    return {**sizes, "dtype": dtype, "weight_bits": weight_bits, "kv_bits": kv_bits}


def _card(sampler: Sampler, dtype: str, bandwidth: int = 0, peak: int = 0) -> dict:
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


def _question(
    sampler: Sampler, phase: str, batch: int, seq: int, config: dict, card: dict | None = None, measure: str = ""
) -> dict:
    """``measure``: the part whose counts are taken from a pass, too."""
    return {
        "asked": [phase, batch, seq],
        "config": config,
        "card": card or _card(sampler, config["dtype"]),
        "measure": measure,
    }


def _passes(sampler: Sampler) -> Iterator[dict]:
    """One request and several, one token and several, the shortest cache and a long one; a small decoder is run."""
    for plan in sampler.cover(phase=_PHASES, sizes=("small", "large"), batch=("one", "several"), length=(0, 1, 2)):
        seq = (plan["phase"] == "prefill") + [0, sampler.integer(1, 5), sampler.integer(6, 9)][plan["length"]]
        batch = 1 if plan["batch"] == "one" else sampler.integer(2, 4)
        sizes = (_small if plan["sizes"] == "small" else _large)(sampler)
        yield _question(sampler, plan["phase"], batch, seq, _config(sizes))
    for phase in sampler.shuffled(*_PHASES):
        yield _question(
            sampler,
            phase,
            sampler.integer(2, 3),
            sampler.integer(3, 5),
            _config(_small(sampler), "float16"),
            measure="linear",
        )
        yield _question(sampler, phase, sampler.integer(50, 900), sampler.integer(500, 5000), _config(_large(sampler)))
        yield _question(sampler, phase, 3, 5, _config(_small(sampler) | {"layers": 1, "vocabulary": 2001}))
        ones = dict.fromkeys(("layers", "heads", "kv_heads", "head_dim", "hidden", "vocabulary"), 1)
        yield _question(sampler, phase, 2, 4, _config(ones | {"width": 2}))


def _attended(sampler: Sampler) -> Iterator[dict]:
    """Each query head with keys of its own, several that share them, one head of keys for all."""
    for plan in sampler.cover(phase=_PHASES, group=(1, 3, 8), batch=(1, 2, 40), length=(0, 1, 2, 3)):
        seq = (plan["phase"] == "prefill") + [0, 1, sampler.integer(3, 5), sampler.integer(900, 9000)][plan["length"]]
        sizes = (_small if plan["length"] < 3 else _large)(sampler, plan["group"])
        yield _question(sampler, plan["phase"], plan["batch"], seq, _config(sizes))
    for phase in sampler.shuffled(*_PHASES):
        one_for_all = {"kv_heads": 1, "heads": sampler.integer(5, 71)}
        yield _question(sampler, phase, 1, sampler.integer(10, 99), _config(_large(sampler) | one_for_all))
        yield _question(
            sampler,
            phase,
            sampler.integer(2, 9),
            sampler.integer(10, 99),
            _config(_small(sampler) | one_for_all, "float16"),
        )
        yield _question(sampler, phase, sampler.integer(2, 3), 2, _config(_small(sampler, 3)), measure="attention")


def _huge(sampler: Sampler) -> Iterator[dict]:
    """FLOPs of prefill beyond 2 to the 55th and four times an odd number, weights of a matrix so, and a length of its own: no
    float64 holds them.
    """
    length = 4 * sampler.integer(70_000, 90_000)
    for phase, batch, seq in (("prefill", 3, length + 1), ("decode", 1_000_001, length)):
        kv_heads = sampler.choice([5, 7, 9])
        sizes = {
            "layers": 2 * sampler.integer(40, 60) + 1,
            "width": 4 * sampler.integer(1500, 2000) + 2,
            "heads": 9 * kv_heads,
            "kv_heads": kv_heads,
            "head_dim": sampler.choice([97, 129]),
            "hidden": 2 * sampler.integer(10_000, 12_000) + 1,
            "vocabulary": 2 * sampler.integer(40_000, 90_000),
        }
        yield _question(sampler, phase, batch, seq, _config(sizes))
        wide = {
            "layers": 1,
            "width": 2**28 + 4 * sampler.integer(1, 999) + 2,
            "hidden": 2**28 + 2 * sampler.integer(1, 999) + 1,
        }
        yield _question(sampler, phase, 1, 1, _config(sizes | wide))
        yield _question(sampler, phase, 1, 2**60 + 2 * sampler.integer(1, 2**40) + 1, _config(_small(sampler)))


def _of_unlike_bits(sampler: Sampler) -> Iterator[dict]:
    """In each question weights, cache and activations differ from each other, or two of them do."""
    bits, dtypes = (4, 8, 12, 24, 32), tuple(_ITEM_BYTES)
    for number, plan in enumerate(sampler.cover(phase=_PHASES, dtype=dtypes, weight_bits=bits, kv_bits=bits)):
        formats = {name: plan[name] for name in ("dtype", "weight_bits", "kv_bits")}
        config, longest = _config((_small, _large)[number % 2](sampler), **formats), (99, 9000)[number % 2]
        yield _question(sampler, plan["phase"], sampler.integer(1, 9), sampler.integer(2, longest), config)
    yield _question(
        sampler, sampler.choice(_PHASES), 2, 3, _config(_small(sampler), "float32", 32, 32), measure="linear"
    )
    for phase in sampler.shuffled(*_PHASES):  # half a byte is left over of a key, and of its value
        odd = {"kv_heads": 3, "heads": 3 * sampler.integer(2, 4), "head_dim": sampler.choice((5, 7, 9))}
        yield _question(
            sampler, phase, sampler.choice((1, 3)), sampler.choice((3, 5)), _config(_small(sampler) | odd, kv_bits=4)
        )


def _both_sides(sampler: Sampler) -> Iterator[dict]:
    """Cards whose ridge lies on one side of a part's intensity and then on the other, near it and further off.

    A dtype that has fewer or more bits than the weights have, whose peak is another.
    """
    for phase in _PHASES:
        for part in _PARTS:
            for side in sampler.shuffled(0.15, 0.7, 0.85, 1.2, 1.5, 5.0):
                dtype, weight_bits, kv_bits = sampler.choice([("bfloat16", 16, 16), ("float32", 32, 32)])
                yield _beside(sampler, phase, part, side, _config(_large(sampler), dtype, weight_bits, kv_bits))
            for side, (dtype, bits) in product((0.8, 1.25), (("bfloat16", 8), ("float32", 16))):
                yield _beside(sampler, phase, part, side, _config(_large(sampler), dtype, bits, bits))
        yield _within_an_integer(sampler, phase)


def _beside(sampler: Sampler, phase: str, part: str, side: float, config: dict) -> dict:
    batch, seq = sampler.integer(1, 60), sampler.integer(100, 4000)
    flops, nbytes = expected(phase, batch, seq, config)[part]
    bandwidth = sampler.integer(3 * 10**11, 8 * 10**12)
    card = _card(sampler, config["dtype"], bandwidth, round(side * flops / nbytes * bandwidth))
    return _question(sampler, phase, batch, seq, config, card)


def _within_an_integer(sampler: Sampler, phase: str) -> dict:
    """The ridge is above the intensity of the linear layers, and no integer lies between them."""
    while True:
        batch, seq, config = sampler.integer(1, 60), sampler.integer(2, 40), _config(_large(sampler))
        flops, nbytes = expected(phase, batch, seq, config)["linear"]
        if 0.1 < flops / nbytes % 1 < 0.8:
            bandwidth = sampler.integer(3 * 10**11, 8 * 10**12)
            card = _card(sampler, config["dtype"], bandwidth, round((flops / nbytes + 0.1) * bandwidth))
            return _question(sampler, phase, batch, seq, config, card)


def _even(width: int, layers: int) -> dict:
    """All matrices are squares, so that ratios are powers of two where the width is one."""
    sizes = {"layers": layers, "width": width, "heads": 2, "kv_heads": 2, "head_dim": width // 2}
    return sizes | {"hidden": width, "vocabulary": width}


def _ties(sampler: Sampler) -> Iterator[dict]:
    """Powers of two, so that every formula finds them; and one request less."""
    width, bandwidth = sampler.choice([64, 128, 256]), 2 ** sampler.integer(36, 42)
    config, card = (
        _config(_even(width, sampler.integer(1, 5))),
        _card(sampler, "bfloat16", bandwidth, bandwidth * width // 4),
    )
    for batch in (width // 2 - 1, width // 2):  # the ridge is width / 4, and decode's linear layers reach width / 2
        yield _question(sampler, "decode", batch, sampler.integer(1, 99), config, card)
    for batch in (1, sampler.integer(2, 50)):  # the one token before it and itself: 4 * 2 FLOPs for 4 + 12 bytes
        yield _question(sampler, "decode", batch, 1, config, _card(sampler, "bfloat16", bandwidth, bandwidth // 2))


def _collectives(sampler: Sampler) -> Iterator[dict]:
    """Ridges from far below what a row alone allows up to that, and above it; batches of one, of few and of ten thousands."""
    for phase in _PHASES:
        for share in sampler.shuffled(0.0001, 0.02, 0.1, 0.4, 0.7):
            for config in (_config(_large(sampler)), _config(_small(sampler))):
                yield _collective(sampler, phase, config, share)
        for share in sampler.shuffled(1.0001, 1.1, 3.0):
            yield _collective(sampler, phase, _config(sampler.choice([_large, _small])(sampler)), share)
        formats = (4, "bfloat16"), (8, "bfloat16"), (16, "float32"), (32, "bfloat16"), (8, "int8")
        for weight_bits, dtype in sampler.shuffled(*formats):
            yield _collective(sampler, phase, _config(_large(sampler), dtype, weight_bits, sampler.choice([4, 8])), 0.2)
        yield _collective(sampler, phase, _config(_small(sampler)), 0.998)  # a few ten thousands
        twice = _config(_large(sampler))
        yield from (_collective(sampler, phase, twice, share) for share in (0.05, 0.6))
    yield _collective(sampler, "decode", _config(_large(sampler)), 0.3) | {"asked": ["decode", 1, 0]}
    odd, bandwidth = 2 * sampler.integer(50, 99) + 1, 2 ** sampler.integer(36, 42)  # met exactly
    width = 512 - 2 * odd
    card = _card(sampler, "bfloat16", bandwidth, bandwidth // 512 * width * odd)
    yield _question(sampler, sampler.choice(_PHASES), 2, 7, _config(_even(width, sampler.integer(1, 5))), card)
    width, bandwidth = sampler.choice([64, 128]), 2 ** sampler.integer(34, 36)
    config, card = (
        _config(_even(width, sampler.integer(1, 3))),
        _card(sampler, "bfloat16", bandwidth, bandwidth * width // 2 - 1),
    )
    yield _question(
        sampler, sampler.choice(_PHASES), 3, 5, config, card
    )  # about width ** 2 x bandwidth / 4: no float is off
    for ridge in (4, 2, 1):  # at width / item bytes the row's own bytes take as long as its FLOPs, whatever the batch
        width, bandwidth = sampler.choice([64, 128, 256]), 2 ** sampler.integer(36, 42)
        config = _config(_even(width, sampler.integer(1, 5)))
        card = _card(sampler, "bfloat16", bandwidth, bandwidth * width // ridge // (2 if ridge == 1 else 1))
        yield _question(sampler, sampler.choice(_PHASES), sampler.integer(1, 9), sampler.integer(1, 99), config, card)


def _collective(sampler: Sampler, phase: str, config: dict, share: float) -> dict:
    """The ridge is about that share of the FLOPs for a byte of a row. What float64 may round lies far from an integer."""
    flops, _, row = _affine(config)
    while True:
        bandwidth, less = sampler.integer(3 * 10**11, 8 * 10**12), sampler.integer(1, 2000) / 10_000
        peak = round((share - less * min(share, abs(1 - share))) * flops / row * bandwidth)
        exact = _exact_crossing(config, peak, bandwidth)
        if exact is None or exact < 0.98 or 0.02 < exact % 1 < 0.98:
            card = _card(sampler, config["dtype"], bandwidth, peak)
            return _question(sampler, phase, sampler.integer(1, 2000), sampler.integer(1, 5000), config, card)


def _refused(sampler: Sampler) -> Iterator[dict]:
    config = _config(_large(sampler))
    for phase in ("", "Prefill", "DECODE", "pre-fill", "train", "decoding"):
        yield _question(sampler, phase, 2, 10, config)
    for phase in _PHASES:
        for batch in (0, -1, -sampler.integer(2, 99)):
            yield _question(sampler, phase, batch, 10, config)
        for seq in (-1, -sampler.integer(2, 99), *([0] if phase == "prefill" else [])):
            yield _question(sampler, phase, 2, seq, config)
        for heads, kv_heads in ((8, 3), (4, 8), (sampler.integer(9, 15), 8), (2, 4)):
            yield _question(sampler, phase, 2, 10, config | {"heads": heads, "kv_heads": kv_heads})
        yield _question(sampler, phase, 0, 0, config)
    for dtype in ("bfloat16", "float8_e4m3fn", "float32"):
        card = _card(sampler, dtype)
        dense = {name: rate for name, rate in card["dense"].items() if name != dtype}
        yield _question(
            sampler, sampler.choice(_PHASES), 2, 10, _config(_large(sampler), dtype), card | {"dense": dense}
        )
    yield _question(sampler, "decode", 2, 10, _config(_large(sampler), "uint8", 4, 4), _card(sampler, "bfloat16"))


def _just_allowed(sampler: Sampler) -> Iterator[dict]:
    for phase in _PHASES:
        config = _config(_large(sampler, 1), sampler.choice(["bfloat16", "float32"]))
        card = _card(sampler, config["dtype"])
        yield _question(sampler, phase, 1, phase == "prefill" and 1 or 0, config, card)
        only = {"dense": {config["dtype"]: card["dense"][config["dtype"]]}, "sparse": {}}
        yield _question(sampler, phase, 1, 1, config | {"kv_heads": 1}, card | only)


# ---- what is due


def _products(config: dict, requests: int, new: int) -> Iterator[tuple[int, int, int, int]]:
    """How many, rows, inputs and outputs of a pass's products with weights."""
    queries, keys = config["heads"] * config["head_dim"], config["kv_heads"] * config["head_dim"]
    layers, width, hidden = config["layers"], config["width"], config["hidden"]
    for outputs in (queries, keys, keys, hidden, hidden):
        yield layers, requests * new, width, outputs
    for inputs in (queries, hidden):
        yield layers, requests * new, inputs, width
    yield 1, requests, width, config["vocabulary"]


def expected(phase: str, batch: int, seq: int, config: dict) -> dict[str, tuple[int, int]]:
    """FLOPs and bytes by part."""
    new, before = (seq, 0) if phase == "prefill" else (1, seq)
    item, flops, nbytes = _ITEM_BYTES[config["dtype"]], 0, 0
    for times, rows, inputs, outputs in _products(config, batch, new):
        flops += times * 2 * rows * inputs * outputs
        nbytes += times * (inputs * outputs * config["weight_bits"] // 8 + rows * (inputs + outputs) * item)
    pairs = (before + 1 + before + new) * new // 2
    written = 2 * new * config["kv_heads"] * config["head_dim"]
    read = 2 * (before + new) * config["kv_heads"] * config["head_dim"]
    rows = 2 * new * config["heads"] * config["head_dim"] * item
    each = rows + (written + read) * config["kv_bits"] // 8
    many = config["layers"] * batch
    products = 2 * 2 * config["heads"] * config["head_dim"] * pairs
    return {"linear": (flops, nbytes), "attention": (many * products, many * each)}


def _affine(config: dict) -> tuple[int, int, int]:
    """FLOPs of a row in decode, bytes of the weights, and bytes that a row adds to them."""
    (flops, one), (_, two) = (expected("decode", batch, 1, config)["linear"] for batch in (1, 2))
    return flops, 2 * one - two, two - one


def _exact_crossing(config: dict, peak: int, bandwidth: int) -> Fraction | None:
    """Where FLOPs and bytes take the same time; None where they never do."""
    flops, weights, row = _affine(config)
    gain = flops * bandwidth - row * peak
    return Fraction(weights * peak, gain) if gain > 0 else None


def _crossover(question: dict) -> int | None:
    exact = _exact_crossing(question["config"], *_rates(question))
    return None if exact is None else max(1, -(-exact.numerator // exact.denominator))


def _rates(question: dict) -> tuple[int, int]:
    """FLOP/s and bytes/s."""
    return question["card"]["dense"][question["config"]["dtype"]], question["card"]["bytes_per_s"]


# ---- what is wrong


def _wrong(criteria: str, question: dict, answer: Any) -> str | None:
    value, ran = answer if question["measure"] else (answer, None)
    if question["measure"] and ran != list(expected(*question["asked"], question["config"])[question["measure"]]):
        return _ANOTHER
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary."
    if criteria == "crossover":
        return _crossover_problem(question, value)
    return None if criteria == "errors" else _parts_problem(criteria, question, value)


def _parts_problem(criteria: str, question: dict, value: dict) -> str | None:
    if not {*_PARTS, "crossover"} <= set(value):
        return 'The dictionary has no "linear", no "attention" or no "crossover".'
    for part in (criteria,) if criteria in _PARTS else _PARTS:
        if not isinstance(value[part], dict) or not {"flops", "bytes", "intensity", "bound"} <= set(value[part]):
            return 'A part is a dictionary of "flops", "bytes", "intensity" and "bound".'
        if criteria == "bound":
            problem = _bound_problem(question, value[part], expected(*question["asked"], question["config"])[part])
        else:
            problem = _counts_problem(criteria, part, question, value[part])
        if problem:
            return problem
    return None


def _counts_problem(criteria: str, part: str, question: dict, told: dict) -> str | None:
    """``formats`` is about bytes alone."""
    for key, right in zip(("flops", "bytes"), expected(*question["asked"], question["config"])[part], strict=True):
        if key == "flops" and criteria == "formats":
            continue
        if type(told[key]) is not int:
            return f"A count is {type_name(told[key])}; expected a Python integer."
        if told[key] != right:
            return _FORMATS[part] if criteria == "formats" else _why(part, key, told[key], right, question)
    return None


def _bound_problem(question: dict, told: dict, right: tuple[int, int]) -> str | None:
    """By the counts that the function itself gave: those are judged elsewhere, and here must only be counts of such a pass."""
    flops, nbytes, told_ratio = told["flops"], told["bytes"], told["intensity"]
    if any(type(count) not in (int, float) or not isfinite(count) or count <= 0 for count in (flops, nbytes)):
        return "A pass computes something and moves something: both counts are numbers above 0."
    if any(
        not count / _FAR <= told_count <= count * _FAR for told_count, count in zip((flops, nbytes), right, strict=True)
    ):
        return "The counts are not those of a pass of this size: the bound is to be told by them."
    exact = Fraction(flops) / Fraction(nbytes)
    if type(told_ratio) is not float or not isfinite(told_ratio) or abs(Fraction(told_ratio) - exact) > _NEAR * exact:
        return "The intensity is not the part's FLOPs divided by its bytes."
    peak, bandwidth = _rates(question)
    if told["bound"] != ("compute" if Fraction(flops) * bandwidth >= Fraction(nbytes) * peak else "memory"):
        return (
            "The bound is wrong: it is whichever takes longer, the FLOPs at the dense peak of `dtype` or the bytes at the "
            'bandwidth of device memory, for each part by its own counts, and "compute" where they tie.'
        )
    return None


def _crossover_problem(question: dict, value: dict) -> str | None:
    right, told = _crossover(question), value.get("crossover", "nothing")
    if told == right and type(told) is type(right):
        return None
    if right is None:
        return (
            "Where a request's own row takes longer to move than to compute, no batch is large enough, however well the weights "
            "are shared: None is due."
        )
    if type(told) is not int:
        return f"The crossover is {type_name(told)} where an integer is due."
    exact = _exact_crossing(question["config"], *_rates(question))
    if abs(told - exact) <= 2:
        return "The crossover is next to the right batch: the smallest with which the FLOPs take as long as the bytes, or longer."
    return (
        "The crossover is wrong. The weights are moved once for the batch, inputs and outputs once for each request, and FLOPs "
        "are those of a decode pass, whatever the pass that was asked about: the smallest batch whose FLOPs take as long, at the "
        "dense peak."
    )


def _why(part: str, key: str, told: int, right: int, question: dict) -> str:
    phase, _, seq = question["asked"]
    without_itself = (phase, seq) in (("decode", 1), ("prefill", 3))  # has half of the pairs, too
    if 2 * told == right and key == "flops" and not (part == "attention" and without_itself):
        return "That is half of the FLOPs: a multiply-add is two, and attention has two products."
    if part == "attention" and key == "flops" and phase == "prefill" and told * (seq + 1) == right * 2 * seq:
        return "Those are the FLOPs of all pairs: the causal mask leaves out nearly half of them."
    if abs(told - right) * 2**52 <= right:
        return "The count is rounded: it is an exact integer beyond what a float64 holds."
    return _SENTENCES[part, key]


_SENTENCES = {
    ("linear", "flops"): (
        "The FLOPs of the linear layers are wrong: each row has two for each weight of the seven matrices of each layer, by "
        "their own sizes; decode has a row for each request, and the head has one for each request in prefill too."
    ),
    ("linear", "bytes"): (
        "The bytes of the linear layers are wrong: each of the seven products of a layer, and the head, reads its weights once "
        "for the whole batch, and reads an input and writes an output of its own for each row."
    ),
    ("attention", "flops"): (
        "The FLOPs of attention are wrong: for every query head, two products over each pair of a token and itself or one before "
        "it in the same request, in every layer."
    ),
    ("attention", "bytes"): (
        "The bytes of attention are wrong: for each request and layer, queries in and outputs out for the new tokens, keys and "
        "values written for the new tokens, and read for all, by heads of keys and values. Scores are on the chip."
    ),
}
_FORMATS = {
    "linear": "The bytes of the linear layers are wrong in a pass whose formats differ. Beside the counts themselves: weights have "
    "`weight_bits`, inputs and outputs `dtype`.",
    "attention": "The bytes of attention are wrong in a pass whose formats differ. Beside the counts themselves: the cache has "
    "`kv_bits`, queries and outputs `dtype`.",
}

exercise = answers(
    criteria=(
        Criterion("linear", 2, "FLOPs and bytes of the linear layers are right, in both phases"),
        Criterion("attention", 2, "FLOPs and bytes of attention are right, in both phases"),
        Criterion("formats", 1, "weights, cache and activations have bytes of their own"),
        Criterion("bound", 1, "intensity and bound of each part follow from its counts and the card", ("linear",)),
        Criterion(
            "crossover",
            2,
            "the batch that makes decode's linear layers compute-bound is right, and None where none does",
        ),
        Criterion("errors", 1, "what makes no sense is refused with ValueError, and nothing else is"),
    ),
    cases=_cases,
    arguments=lambda question: (*question["asked"], question["config"], question["card"], question["measure"]),
    wrong=_wrong,
    kept="The function changed the card that it was given: the caller still needs it.",
    in_kernel=True,
)
