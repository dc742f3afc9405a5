"""E12.4 mfu: cases and judge. Parts are judged by what changes between two calls, so that one error costs one part."""

from collections.abc import Iterator
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, raised_problem, type_name
from exercises.profiling.answers import refusal_problem, returned
from gpulab.cards.cards import CARDS, card_named

_NEAR = Fraction(1, 10**9)
_NEAR_CHANGE = Fraction(1, 10**6)
"""Of what changes between two calls, which are each right to a billionth."""
_SPARSE = Fraction(1, 2)
"""What comes out, of what is due, where a peak with sparsity is taken."""
_NOT_ALL_PASSES = (Fraction(1, 3), Fraction(2, 3))
"""And where the forward or the backward pass alone is counted."""
_FORMATS = ("bf16", "fp16", "tf32", "fp32", "fp64", "int8")
_WITH_TF32 = tuple(key for key, card in CARDS.items() if card.flops_per_s["tf32"] > card.flops_per_s["fp32"])
"""Cards whose matrix units take TF32: not the T4."""
_SIZES = ("n_gpus", "n_params", "layers", "width", "seq")


# ---- what is due


_DEFAULTS = {"n_lookup": 0, "again": 0.0}


def _per_token(call: dict) -> int:
    """FLOPs: forward, and twice as much backward."""
    products = 2 * (call["n_params"] - call["n_lookup"])
    scores_and_values = 2 * 2 * call["layers"] * call["width"] * call["seq"]
    return 3 * (products + scores_and_values)


def expected(call: dict) -> tuple[Fraction, Fraction]:
    """MFU and HFU of numbers that make sense."""
    call = _DEFAULTS | call
    allowed = call["n_gpus"] * Fraction(card_named(call["gpu"]).flops_per_s[call["dtype"]])
    useful = Fraction(call["tokens_per_s"]) * _per_token(call) / allowed
    return useful, useful + useful * Fraction(call["again"]) / 3


def _refused(call: dict) -> str | None:
    """Why no number is due, or None."""
    call = _DEFAULTS | call
    known = {card.key: card for card in CARDS.values()}
    key = call["gpu"].upper().replace("-", "").replace(" ", "").replace("_", "")
    if key not in known:
        return "There is no such card."
    if call["dtype"] not in known[key].flops_per_s:
        return "The card has no peak of such a `dtype`."
    if small := next((size for size in _SIZES if call[size] < 1), None):
        return f"`{small}` is less than 1."
    if not 0 <= call["n_lookup"] < call["n_params"]:
        return "`n_lookup` is negative, or not less than `n_params`."
    if not (isfinite(call["tokens_per_s"]) and call["tokens_per_s"] >= 0):
        return "`tokens_per_s` is not in its range."
    if not 0 <= call["again"] <= 1:
        return "`again` is not in its range."
    return "No card is faster than its peak." if expected(call)[1] > 1 else None


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Case]:
    for criteria, pairs in (("parameters", _parameters), ("attention", _attention), ("peak", _peaks), ("job", _jobs)):
        yield Case(
            (criteria,), {"calls": [call for pair in sampler.permutation(list(pairs(sampler))) for call in pair]}
        )
    yield Case(("again",), {"calls": sampler.permutation(list(_checkpointed(sampler)))})
    yield Case(("value",), {"calls": sampler.permutation(list(_whole(sampler)))})
    yield Case(("errors",), {"calls": sampler.permutation([*_senseless(sampler), *_just_allowed(sampler)])})


def _call(sampler: Sampler, share: float = 0.0, **given: Any) -> dict:
    """A job of which MFU is about ``share``, or drawn between a twentieth and nearly a half. Attention takes a part that is seen."""
    layers, width = sampler.integer(20, 90), 128 * sampler.integer(20, 90)
    call = {
        "n_params": 12 * layers * width**2 + sampler.integer(10**6, 10**9),
        "gpu": sampler.choice(_WITH_TF32),
        "n_gpus": sampler.integer(2, 4000),
        "dtype": "tf32",
        "layers": layers,
        "width": width,
        "seq": sampler.integer(9, 64) * 1000 + 24,
        "n_lookup": sampler.integer(10**5, 10**6),
        "again": 0.0,
        "tokens_per_s": 1,
    } | given
    if "tokens_per_s" not in given:
        share = share or sampler.integer(50, 450) / 1000
        call["tokens_per_s"] = float(Fraction(share) / expected(call)[0])
    return call


def _parameters(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """The second has more parameters that multiply, or more that are looked up, or both alike: then nothing changes."""
    for _ in range(2):
        one = _call(sampler)
        more = one["n_params"] * sampler.integer(2, 9) // 10
        yield one, one | {"n_params": one["n_params"] + more}
        yield one, one | {"n_lookup": one["n_lookup"] + more}
        yield one, one | {"n_params": one["n_params"] + more, "n_lookup": one["n_lookup"] + more}
    yield (one := _call(sampler, n_lookup=0)), one | {"n_params": 2 * one["n_params"]}


def _attention(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """The same parameters in more layers, a wider attention, longer sequences."""
    for key in sampler.shuffled("layers", "width", "seq"):
        one = _call(sampler, n_params=10**9 * sampler.integer(1, 9), share=0.1)
        yield one, one | {key: one[key] * sampler.integer(2, 3)}
    one = _call(sampler, n_params=10**8, share=0.1)
    yield one, one | {"layers": one["layers"] * 2, "width": one["width"] // 2, "seq": one["seq"] * 3}


def _peaks(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    """Formats of which some have no sparse peak, and cards, by names as people write them."""
    spelt = {"H100": "h100", "RTX4090": "RTX 4090", "L40S": "l40s", "A100": "A-100", "T4": "t4"}
    for dtype in sampler.shuffled("bf16", "fp16", "tf32", "int8"):
        one = _call(sampler, share=0.0005, dtype=dtype, gpu=sampler.choice(("H100", "A100", "L40S", "A10")))
        yield one, one | {"dtype": "fp64"}
        yield one, one | {"dtype": "fp32"}
    cards = sampler.permutation(list(CARDS))
    for gpu, other in zip(cards, cards[1:]):
        yield (one := _call(sampler, share=0.001, gpu=gpu, dtype="bf16")), one | {"gpu": spelt.get(other, other)}


def _jobs(sampler: Sampler) -> Iterator[tuple[dict, dict]]:
    one = _call(sampler, share=0.04)
    for many in sampler.shuffled(2, sampler.integer(3, 9)):
        yield one, one | {"n_gpus": one["n_gpus"] * many}
        yield one, one | {"tokens_per_s": one["tokens_per_s"] * many}
    yield (one := _call(sampler, share=0.2, n_gpus=8)), one | {"n_gpus": 9, "tokens_per_s": one["tokens_per_s"] * 2}
    yield (one := _call(sampler, share=0.4, n_gpus=1)), one | {"n_gpus": 8}


def _checkpointed(sampler: Sampler) -> Iterator[dict]:
    for again in sampler.shuffled(0.0, 0, 0.25, sampler.integer(300, 900) / 1000, 1.0, 1):
        yield _call(sampler, again=again)


def _whole(sampler: Sampler) -> Iterator[dict]:
    """All formats that a card has, jobs from one card on, small models and huge ones, a rate of nothing."""
    for gpu in sampler.shuffled("H100", "A100", "RTX4090"):
        for dtype in sampler.shuffled(*_FORMATS):
            yield _call(sampler, gpu=gpu, dtype=dtype, again=sampler.choice((0.0, 0.5, 1.0)))
    yield _call(sampler, tokens_per_s=0)
    for left_out in sampler.shuffled(("again",), ("n_lookup",), ("n_lookup", "again")):
        call = _call(sampler, n_params=sampler.integer(10**3, 10**4), layers=1, width=8, seq=8, n_lookup=0)
        yield {key: value for key, value in call.items() if key not in left_out}
    yield _call(
        sampler, tokens_per_s=sampler.integer(1000, 9000), n_params=7 * 10**9, gpu="H100", n_gpus=64, dtype="bf16"
    )
    yield _call(sampler, n_params=2, n_lookup=1, layers=1, width=1, seq=1, n_gpus=1)
    yield _call(sampler, n_params=10**13 + sampler.integer(1, 10**9), n_lookup=0, n_gpus=10**5)


def _senseless(sampler: Sampler) -> Iterator[dict]:
    for gpu in sampler.shuffled("V100", "TPUv4", "", "H1000"):
        yield _call(sampler) | {"gpu": gpu}
    for dtype in sampler.shuffled("fp8", "bfloat16", "BF16", "", "fp16 sparse"):
        yield _call(sampler) | {"dtype": dtype}
    for size in sampler.shuffled(*_SIZES):
        for less in sampler.shuffled(0, -1, -sampler.integer(2, 99)):
            yield _call(sampler, n_lookup=0) | {size: less}
    one = _call(sampler)
    for n_lookup in sampler.shuffled(-1, one["n_params"], one["n_params"] + sampler.integer(1, 99)):
        yield one | {"n_lookup": n_lookup}
    for rate in sampler.shuffled(-1, -0.5, inf, -inf, nan):
        yield _call(sampler) | {"tokens_per_s": rate}
    for again in sampler.shuffled(-0.001, 1.001, 2, inf, nan):
        yield _call(sampler) | {"again": again}
    for again in sampler.shuffled(0.0, 0.5, 1.0):
        yield _call(sampler, share=1.00001 / (1 + again / 3), again=again)
    yield _call(sampler, share=sampler.integer(2, 900))


def _just_allowed(sampler: Sampler) -> Iterator[dict]:
    for again in sampler.shuffled(0.0, 0.5, 1.0):
        yield _call(sampler, share=0.99999 / (1 + again / 3), again=again, n_lookup=0)
    yield _call(sampler, n_gpus=1, layers=1, width=1, seq=1, n_params=1, n_lookup=0)
    yield (one := _call(sampler)) | {"n_lookup": one["n_params"] - 1, "tokens_per_s": 0}


# ---- what is wrong


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    calls, answers = case.inputs["calls"], evidence["answers"]
    if problem := count_problem(answers, len(calls)):
        yield Failure(criteria, problem)
    elif problem := next(filter(None, _problems(criteria, calls, answers)), None):
        yield Failure(criteria, problem)


def _problems(criteria: str, calls: list[dict], answers: list[dict]) -> Iterator[str | None]:
    for call, answer in zip(calls, answers, strict=True):
        yield _answer_problem(call, answer)
    if criteria == "errors":
        return
    told = [tuple(map(Fraction, answer["returned"])) for answer in answers]
    right = [expected(call) for call in calls]
    if _is_rounded(_flat(told), _flat(right)):
        yield _ROUNDED
    if criteria == "value":
        yield from (
            None if _near(*pair, _NEAR) else _SENTENCES[criteria]
            for pair in zip(_flat(told), _flat(right), strict=True)
        )
    elif criteria == "again":
        yield from map(_again_problem, told, right)
    else:
        pairs = zip(told[::2], told[1::2], right[::2], right[1::2], strict=True)
        yield from (
            None if _change_is_right(criteria, *(each[0] for each in four)) else _SENTENCES[criteria] for four in pairs
        )


def _answer_problem(call: dict, answer: dict) -> str | None:
    """Whether an error is due, and if not, that two numbers came back."""
    if refused := _refused(call):
        problem = refusal_problem(answer)
        return problem and f"{problem} {refused}"
    if "error" in answer:
        return raised_problem(answer["error"])
    value = returned(answer)
    if not isinstance(value, tuple) or len(value) != 2:
        return f"The function returned {type_name(value)}; expected a tuple of MFU and HFU."
    if strange := [each for each in value if type(each) is not float]:
        return f"A share is {type_name(strange[0])}; expected a float."
    return None if all(map(isfinite, value)) else "A share is no finite number."


def _change_is_right(criteria: str, one: Fraction, two: Fraction, right: Fraction, other: Fraction) -> bool:
    """Of rates and peaks the ratio is right, and no peak is twice what it is; of sums what is added, or all but for one factor."""
    is_ratio_right = one != 0 and _near(two / one, other / right, _NEAR)
    if criteria in ("peak", "job"):
        return is_ratio_right and not (criteria == "peak" and _near(one / right, _SPARSE, _NEAR))
    change = other - right
    is_elsewhere = is_ratio_right and not any(_near(one / right, passes, _NEAR) for passes in _NOT_ALL_PASSES)
    return is_elsewhere or abs(two - one - change) <= _NEAR_CHANGE * (abs(change) or right)


def _is_rounded(told: list[Fraction], right: list[Fraction]) -> bool:
    """Whether some number is not near enough, and all are what rounding to so many decimals leaves."""
    if all(_near(*pair, _NEAR) for pair in zip(told, right, strict=True)):
        return False
    return any(all(_is_due_with(digits, *pair) for pair in zip(told, right)) for digits in range(1, 15))


def _is_due_with(digits: int, told: Fraction, right: Fraction) -> bool:
    return float(told) == round(float(told), digits) and abs(told - right) <= Fraction(6, 10 ** (digits + 1))


def _again_problem(told: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]) -> str | None:
    if told[0] == 0 or not _near(told[1] / told[0], right[1] / right[0], _NEAR):
        return _SENTENCES["again"]
    return None


def _near(told: Fraction, right: Fraction, share: Fraction) -> bool:
    return abs(told - right) <= share * right


def _flat(pairs: list[tuple[Fraction, Fraction]]) -> list[Fraction]:
    return [number for pair in pairs for number in pair]


_SENTENCES = {
    "parameters": "What parameters add is wrong: each that multiplies takes 6 FLOPs for a token, forward and backward, and one that is "
    "looked up takes none.",
    "attention": "What attention adds is wrong: 12 FLOPs for each token, layer, column of all heads together and token of the sequence.",
    "peak": "From one format or card to another MFU changes as the dense peaks do, and a peak with sparsity is twice a dense one.",
    "job": "The tokens are the whole job's, and so are the cards: twice the cards for as many tokens is half of the utilisation.",
    "again": "HFU and MFU differ by what runs again, and by nothing else: a share of the forward pass, which is a third.",
    "value": "A number is wrong as a whole: a factor (of percent, of sparsity, of cards), a term, or what runs again counted as useful.",
}
_ROUNDED = "The numbers are rounded: each is due right to a billionth of itself, and a small share has few digits left."

exercise = Exercise(
    criteria=(
        Criterion("parameters", 2, "parameters take 6 FLOPs for a token, those that are looked up none"),
        Criterion("attention", 2, "attention takes the FLOPs that PaLM's authors count"),
        Criterion("peak", 2, "the dense peak of the card for the format is what is compared with"),
        Criterion("job", 1, "tokens and cards are those of the whole job"),
        Criterion("again", 1, "what runs again is in HFU, and a third of a pass at most"),
        Criterion("value", 1, "both numbers are right as a whole"),
        Criterion("errors", 2, "what makes no sense is refused with ValueError, and nothing else is"),
    ),
    cases=_cases,
    judge=_judge,
)
