"""E18.3 intensity: passes of decoders on cards."""

from collections.abc import Iterator
from itertools import cycle, product

from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, ask
from exercises.inference.intensity.asked import PHASES, card_of, config_of, large, question_of, small
from exercises.inference.intensity.expected import ITEM_BYTES, crossover, exact_crossing, expected, line_of
from exercises.inference.parts import with_parts

PARTS = ("linear", "attention")


def counted_cases(sampler: Sampler) -> Iterator[Questions]:
    """Where several rows, pairs and bytes are to be told apart, the first question is one in which no two misreadings agree."""
    telling = question_of(sampler, "prefill", 5, sampler.integer(6, 9), config_of(small(sampler) | {"layers": 3}))
    yield ask("linear", [telling, *sampler.permutation([*_passes(sampler), *_huge(sampler)])])
    telling = question_of(sampler, "decode", 5, sampler.integer(6, 9), config_of(small(sampler, 3) | {"layers": 3}))
    yield ask("attention", [telling, *sampler.permutation([*_attended(sampler), *_huge(sampler)])])
    telling = _of_format(sampler, "decode", 3, sampler.integer(6, 9), config_of(small(sampler), "float32", 8, 12))
    yield ask("formats", with_parts([telling, *sampler.permutation(list(_of_unlike_bits(sampler)))]))
    yield ask("bound", sampler.permutation([*_both_sides(sampler), *_ties(sampler)]))
    yield ask("crossover", with_parts(sampler.permutation(list(_crossings(sampler)))))


def _passes(sampler: Sampler) -> Iterator[dict]:
    """One request and several, one token and several, the shortest cache and a long one; a small decoder is run."""
    for plan in sampler.cover(phase=PHASES, sizes=("small", "large"), batch=("one", "several"), length=(0, 1, 2)):
        seq = (plan["phase"] == "prefill") + [0, sampler.integer(1, 5), sampler.integer(6, 9)][plan["length"]]
        batch = 1 if plan["batch"] == "one" else sampler.integer(2, 4)
        sizes = (small if plan["sizes"] == "small" else large)(sampler)
        yield question_of(sampler, plan["phase"], batch, seq, config_of(sizes))
    for phase in sampler.shuffled(*PHASES):
        yield question_of(
            sampler,
            phase,
            sampler.integer(2, 3),
            sampler.integer(3, 5),
            config_of(small(sampler), "float16"),
            measure="linear",
        )
        yield question_of(
            sampler, phase, sampler.integer(50, 900), sampler.integer(500, 5000), config_of(large(sampler))
        )
        yield question_of(sampler, phase, 3, 5, config_of(small(sampler) | {"layers": 1, "vocabulary": 2001}))
        ones = dict.fromkeys(("layers", "heads", "kv_heads", "head_dim", "hidden", "vocabulary"), 1)
        yield question_of(sampler, phase, 2, 4, config_of(ones | {"width": 2}))


def _attended(sampler: Sampler) -> Iterator[dict]:
    """Each query head with keys of its own, several that share them, one head of keys for all."""
    for plan in sampler.cover(phase=PHASES, group=(1, 3, 8), batch=(1, 2, 40), length=(0, 1, 2, 3)):
        seq = (plan["phase"] == "prefill") + [0, 1, sampler.integer(3, 5), sampler.integer(900, 9000)][plan["length"]]
        sizes = (small if plan["length"] < 3 else large)(sampler, plan["group"])
        yield question_of(sampler, plan["phase"], plan["batch"], seq, config_of(sizes))
    for phase in sampler.shuffled(*PHASES):
        one_for_all = {"kv_heads": 1, "heads": sampler.integer(5, 71)}
        yield question_of(sampler, phase, 1, sampler.integer(10, 99), config_of(large(sampler) | one_for_all))
        yield question_of(
            sampler,
            phase,
            sampler.integer(2, 9),
            sampler.integer(10, 99),
            config_of(small(sampler) | one_for_all, "float16"),
        )
        yield question_of(sampler, phase, sampler.integer(2, 3), 2, config_of(small(sampler, 3)), measure="attention")


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
        yield question_of(sampler, phase, batch, seq, config_of(sizes))
        wide = {
            "layers": 1,
            "width": 2**28 + 4 * sampler.integer(1, 999) + 2,
            "hidden": 2**28 + 2 * sampler.integer(1, 999) + 1,
        }
        yield question_of(sampler, phase, 1, 1, config_of(sizes | wide))
        yield question_of(sampler, phase, 1, 2**60 + 2 * sampler.integer(1, 2**40) + 1, config_of(small(sampler)))


def _of_unlike_bits(sampler: Sampler) -> Iterator[dict]:
    """In each question weights, cache and activations differ from each other, or two of them do; it rests on one where none does."""
    bits, dtypes = (4, 8, 12, 24, 32), tuple(ITEM_BYTES)
    for number, plan in enumerate(sampler.cover(phase=PHASES, dtype=dtypes, weight_bits=bits, kv_bits=bits)):
        formats = {name: plan[name] for name in ("dtype", "weight_bits", "kv_bits")}
        sizes, longest = (small, large)[number % 2](sampler), (99, 9000)[number % 2]
        asked = plan["phase"], sampler.integer(1, 9), sampler.integer(2, longest)
        yield _of_format(sampler, *asked, config_of(sizes, **formats))
    single = config_of(small(sampler), "float32", 32, 32)
    yield _of_format(sampler, sampler.choice(PHASES), 2, 3, single) | {"measure": "linear"}
    for phase in sampler.shuffled(*PHASES):  # half a byte is left over of a key, and of its value
        odd = {"kv_heads": 3, "heads": 3 * sampler.integer(2, 4), "head_dim": sampler.choice((5, 7, 9))}
        asked = phase, sampler.choice((1, 3)), sampler.choice((3, 5))
        yield _of_format(sampler, *asked, config_of(small(sampler) | odd, kv_bits=4))


def _of_format(sampler: Sampler, phase: str, batch: int, seq: int, config: dict) -> dict:
    question = question_of(sampler, phase, batch, seq, config)
    return {**question, "parts": [{**question, "config": config_of(config)}]}


def _both_sides(sampler: Sampler) -> Iterator[dict]:
    """Cards whose ridge lies on one side of a part's intensity and then on the other, near it and further off.

    A dtype that has fewer or more bits than the weights have, whose peak is another.
    """
    for phase in PHASES:
        for part in PARTS:
            for side in sampler.shuffled(0.15, 0.7, 0.85, 1.2, 1.5, 5.0):
                dtype, weight_bits, kv_bits = sampler.choice([("bfloat16", 16, 16), ("float32", 32, 32)])
                yield _beside(sampler, phase, part, side, config_of(large(sampler), dtype, weight_bits, kv_bits))
            for side, (dtype, bits) in product((0.8, 1.25), (("bfloat16", 8), ("float32", 16))):
                yield _beside(sampler, phase, part, side, config_of(large(sampler), dtype, bits, bits))
        yield _within_an_integer(sampler, phase)


def _beside(sampler: Sampler, phase: str, part: str, side: float, config: dict) -> dict:
    batch, seq = sampler.integer(1, 60), sampler.integer(100, 4000)
    flops, nbytes = expected(phase, batch, seq, config)[part]
    bandwidth = sampler.integer(3 * 10**11, 8 * 10**12)
    card = card_of(sampler, config["dtype"], bandwidth, round(side * flops / nbytes * bandwidth))
    return question_of(sampler, phase, batch, seq, config, card)


def _within_an_integer(sampler: Sampler, phase: str) -> dict:
    """The ridge is above the intensity of the linear layers, and no integer lies between them."""
    while True:
        batch, seq, config = sampler.integer(1, 60), sampler.integer(2, 40), config_of(large(sampler))
        flops, nbytes = expected(phase, batch, seq, config)["linear"]
        if 0.1 < flops / nbytes % 1 < 0.8:
            bandwidth = sampler.integer(3 * 10**11, 8 * 10**12)
            card = card_of(sampler, config["dtype"], bandwidth, round((flops / nbytes + 0.1) * bandwidth))
            return question_of(sampler, phase, batch, seq, config, card)


def _even(width: int, layers: int) -> dict:
    """All matrices are squares, so that ratios are powers of two where the width is one."""
    sizes = {"layers": layers, "width": width, "heads": 2, "kv_heads": 2, "head_dim": width // 2}
    return sizes | {"hidden": width, "vocabulary": width}


def _ties(sampler: Sampler) -> Iterator[dict]:
    """Powers of two, so that every formula finds them; and one request less."""
    width, bandwidth = sampler.choice([64, 128, 256]), 2 ** sampler.integer(36, 42)
    config, card = (
        config_of(_even(width, sampler.integer(1, 5))),
        card_of(sampler, "bfloat16", bandwidth, bandwidth * width // 4),
    )
    for batch in (width // 2 - 1, width // 2):  # the ridge is width / 4, and decode's linear layers reach width / 2
        yield question_of(sampler, "decode", batch, sampler.integer(1, 99), config, card)
    for batch in (1, sampler.integer(2, 50)):  # the one token before it and itself: 4 * 2 FLOPs for 4 + 12 bytes
        yield question_of(sampler, "decode", batch, 1, config, card_of(sampler, "bfloat16", bandwidth, bandwidth // 2))


def _crossings(sampler: Sampler) -> Iterator[dict]:
    """Ridges from far below what a row alone allows up to that, and above it; batches of one, of few and of ten thousands."""
    phases, sizes = cycle(sampler.shuffled(*PHASES)), sampler.shuffled(large, small)
    for share in sampler.shuffled(0.0001, 0.02, 0.1, 0.4, 0.7):
        yield from (_crossing(sampler, next(phases), config_of(of(sampler)), share) for of in sizes)
    for share in sampler.shuffled(1.0001, 1.1, 3.0):
        yield _crossing(sampler, next(phases), config_of(sampler.choice([large, small])(sampler)), share)
    formats = (4, "bfloat16"), (8, "bfloat16"), (16, "float32"), (32, "bfloat16"), (8, "int8")
    for weight_bits, dtype in sampler.shuffled(*formats):
        config = config_of(large(sampler), dtype, weight_bits, sampler.choice([4, 8]))
        yield _crossing(sampler, next(phases), config, 0.2)
    for phase in PHASES:
        yield _crossing(sampler, phase, config_of(small(sampler)), 0.998)  # a few ten thousands
        twice = config_of(large(sampler))
        yield from (_crossing(sampler, phase, twice, share) for share in (0.05, 0.6))
    yield _crossing(sampler, "decode", config_of(large(sampler)), 0.3) | {"asked": ["decode", 1, 0]}
    yield from _exact_crossings(sampler)


def _exact_crossings(sampler: Sampler) -> Iterator[dict]:
    odd, bandwidth = 2 * sampler.integer(50, 99) + 1, 2 ** sampler.integer(36, 42)  # met exactly
    width = 512 - 2 * odd
    yield _of_squares(sampler, width, bandwidth, bandwidth // 512 * width * odd)
    width, bandwidth = sampler.choice([64, 128]), 2 ** sampler.integer(34, 36)
    yield _of_squares(
        sampler, width, bandwidth, bandwidth * width // 2 - 1
    )  # about width ** 2 x bandwidth / 4: no float is off
    for ridge in (4, 2, 1):  # at width / item bytes the row's own bytes take as long as its FLOPs, whatever the batch
        width, bandwidth = sampler.choice([64, 128, 256]), 2 ** sampler.integer(36, 42)
        yield _of_squares(sampler, width, bandwidth, bandwidth * width // ridge // (2 if ridge == 1 else 1))


def _of_squares(sampler: Sampler, width: int, bandwidth: int, peak: int) -> dict:
    config, card = config_of(_even(width, sampler.integer(1, 5))), card_of(sampler, "bfloat16", bandwidth, peak)
    return _beside_it(
        question_of(sampler, sampler.choice(PHASES), sampler.integer(1, 9), sampler.integer(1, 99), config, card)
    )


def _crossing(sampler: Sampler, phase: str, config: dict, share: float) -> dict:
    """The ridge is about that share of the FLOPs for a byte of a row. What float64 may round lies far from an integer."""
    _, flops, _, row = line_of(config)
    while True:
        bandwidth, less = sampler.integer(3 * 10**11, 8 * 10**12), sampler.integer(1, 2000) / 10_000
        peak = round((share - less * min(share, abs(1 - share))) * flops / row * bandwidth)
        exact = exact_crossing(line_of(config), peak, bandwidth)
        if exact is None or exact < 0.98 or 0.02 < exact % 1 < 0.98:
            card = card_of(sampler, config["dtype"], bandwidth, peak)
            asked = phase, sampler.integer(1, 2000), sampler.integer(1, 5000)
            return _beside_it(question_of(sampler, *asked, config, card))


def _beside_it(question: dict) -> dict:
    """Rests on decode passes on both sides of the crossing, or with few and with very many requests where there is none."""
    batch = crossover(question)
    sides = (1, 2**40) if batch is None else (max(batch - 1, 1), max(batch, 2))
    return {**question, "parts": [{**question, "asked": ["decode", side, 9]} for side in sides]}
