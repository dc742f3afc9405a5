"""E4.5 roofline: cases and judge."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isclose
from typing import Any

from autograder.core.exercise import Criterion, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse
from autograder.protocol.plain import value_of

_UNITS = {"GB/s": 1e9, "TB/s": 1e12, "TFLOPS": 1e12, "PFLOPS": 1e15}
_RATIOS = {"fp32": 1, "tf32": 3, "bf16": 7, "fp8": 11, "fp64": 0.5, "fp4": 17}
_FAR = 1e7
"""Times as long: both times added up are then the longer one, and what is misread shows alone."""
_KNOWN = ("fp32", "tf32", "bf16", "fp8", "fp64")
"""The formats of the H100's sheet: one that reads no others loses ``formats`` alone."""


def _roofline_cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask(
        "seconds",
        [_question(sampler, _card(sampler), "fp32", side) for side in (0.2, 0.7, 1.5, 6.0)] + _of_one_work(sampler),
    )
    yield ask("dense", list(_sparse(sampler)))
    one = _question(sampler, _card(sampler), "fp32", _FAR * max(_RATIOS.values()))
    own = [_question(sampler, _card(sampler), dtype, side) for dtype in _RATIOS for side in (_FAR, 1 / _FAR)]
    yield ask("formats", own + [{**one, "dtype": dtype} for dtype in sampler.shuffled(*_RATIOS)])
    yield ask("units", list(_in_odd_units(sampler)))
    yield ask(
        "bound",
        [*_edges(sampler), *(question for card in _all_cards(sampler) for question in _about_one_card(sampler, *card))],
    )
    yield refuse("errors", [(question, _why_refused(**question)) for question in _refused(sampler)])


def _card(
    sampler: Sampler, peaks_in: str = "TFLOPS", memory_in: str = "GB/s", kind: str = "dense", but: dict | None = None
) -> dict:
    """A datasheet; each format has a peak of its own. ``but``: formats whose unit and kind are others."""
    base, rate = sampler.integer(20, 99), sampler.integer(300, 4800)
    printed = {name: (but or {}).get(name, (peaks_in, kind)) for name in sampler.shuffled(*_RATIOS)}
    peaks = {
        name: (base * _RATIOS[name] * _UNITS["TFLOPS"] / _UNITS[unit], unit, kind)
        for name, (unit, kind) in printed.items()
    }
    return {"name": "a card", "memory": (rate * _UNITS["GB/s"] / _UNITS[memory_in], memory_in), "peaks": peaks}


def _of_one_work(sampler: Sampler) -> list[dict]:
    """The same counts on a card and on one whose memory is twice as fast."""
    card = _card(sampler)
    rate, unit = card["memory"]
    on_one = _question(sampler, card, "fp32", 0.2)
    return [on_one, {**on_one, "card": {**card, "memory": (2 * rate, unit)}}]


def _sparse(sampler: Sampler) -> Iterator[dict]:
    """Sheets with sparsity throughout, and sheets on which only the format asked for has it, or lacks it."""
    sparse, dense = ("TFLOPS", "with sparsity"), ("TFLOPS", "dense")
    for side in (_FAR, _FAR, 1 / _FAR):
        yield _question(sampler, _card(sampler, kind="with sparsity"), "fp32", side)
    for dtype in _KNOWN:
        yield _question(sampler, _card(sampler, but={dtype: sparse}), dtype, _FAR)
        yield _question(sampler, _card(sampler, kind="with sparsity", but={dtype: dense}), dtype, _FAR)


def _in_odd_units(sampler: Sampler) -> Iterator[dict]:
    """Every unit, and sheets on which only the format asked for has another."""
    for units in (("TFLOPS", "TB/s"), ("PFLOPS", "TB/s"), ("PFLOPS", "GB/s")):
        yield from (_question(sampler, _card(sampler, *units), "fp32", side) for side in (1 / _FAR, _FAR))
    for dtype in _KNOWN:
        yield _question(sampler, _card(sampler, but={dtype: ("PFLOPS", "dense")}), dtype, _FAR)
        yield _question(sampler, _card(sampler, "PFLOPS", but={dtype: ("TFLOPS", "dense")}), dtype, _FAR)


def _all_cards(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    ways = {"peaks_in": ("TFLOPS", "PFLOPS"), "memory_in": ("GB/s", "TB/s"), "kind": ("dense", "with sparsity")}
    for way in sampler.cover(dtype=_KNOWN, **ways):
        dtype = way.pop("dtype")
        yield _card(sampler, **way), dtype


def _about_one_card(sampler: Sampler, card: dict, dtype: str) -> Iterator[dict]:
    """First its two rates, then what they bound."""
    yield {"flops": sampler.integer(1, 10**9), "nbytes": 0, "card": card, "dtype": dtype}
    yield {"flops": 0, "nbytes": sampler.integer(1, 10**9), "card": card, "dtype": dtype}
    yield from (_question(sampler, card, dtype, side) for side in (0.4, 0.8, 1.2, 2.5))


def _edges(sampler: Sampler) -> Iterator[dict]:
    """Ties: powers of two apart, so that every formula finds them."""
    for power in (2, sampler.integer(3, 6), 7):
        peak = (2.0 * 2**power, "TFLOPS", "dense")
        card = {"name": "a card", "memory": (2.0, "TB/s"), "peaks": {"fp32": peak}}
        nbytes = 2 ** sampler.integer(10, 30)
        yield {"flops": 2**power * nbytes, "nbytes": 0, "card": card, "dtype": "fp32"}
        yield {"flops": 0, "nbytes": nbytes, "card": card, "dtype": "fp32"}
        yield {"flops": 2**power * nbytes, "nbytes": nbytes, "card": card, "dtype": "fp32"}


def _rates(card: dict, dtype: str) -> tuple[float, float]:
    """Operations and bytes a second."""
    peak, unit, kind = card["peaks"][dtype]
    rate, per_second = card["memory"]
    return peak * _UNITS[unit] / (2 if kind == "with sparsity" else 1), rate * _UNITS[per_second]


def _question(sampler: Sampler, card: dict, dtype: str, side: float) -> dict:
    """Work whose arithmetic takes ``side`` times as long as its traffic."""
    peak, bandwidth = _rates(card, dtype)
    nbytes = sampler.integer(10**8, 10**10)
    return {"flops": round(side * nbytes / bandwidth * peak), "nbytes": nbytes, "card": card, "dtype": dtype}


def _refused(sampler: Sampler) -> Iterator[dict]:
    card = _card(sampler)
    some, few = sampler.integer(100, 10**9), sampler.integer(2, 9)
    for dtype in ("int8", "fp", "BF16", ""):
        yield {"flops": some, "nbytes": some, "card": card, "dtype": dtype}
    yield {"flops": some, "nbytes": some, "card": {**card, "peaks": {"bf16": card["peaks"]["bf16"]}}, "dtype": "fp32"}
    for flops, nbytes in (
        (-few, some),
        (some, -few),
        (-1, some),
        (some, -1),
        (-some, -few),
        (-few, 0),
        (0, -few),
        (0, 0),
    ):
        yield {"flops": flops, "nbytes": nbytes, "card": card, "dtype": "fp32"}


def _why_refused(flops: int, nbytes: int, card: dict, dtype: str) -> str:
    if dtype not in card["peaks"]:
        return f"the card has no peak for the dtype `{dtype}`"
    if flops < 0 or nbytes < 0:
        return f"flops {flops} is negative" if flops < 0 else f"nbytes {nbytes} is negative"
    return "flops and nbytes are both 0"


_HINTS = {
    "seconds": "Arithmetic and memory traffic overlap: the longer of the two is the time.",
    "dense": "A peak with sparsity is twice what dense matrices reach.",
    "formats": "Each format has a peak of its own.",
    "units": "T is 10^12 and G is 10^9, of bytes as of operations.",
}


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict) or not {"seconds", "bound", "ridge"} <= set(value):
        return f'The function returned {type_name(value)}; expected a dictionary of "seconds", "bound" and "ridge".'
    if criteria == "bound":
        return None
    return None if _is(value["seconds"], _expected_seconds(question)) else f"The time is wrong. {_HINTS[criteria]}"


def _expected_seconds(question: dict) -> float:
    peak, bandwidth = _rates(question["card"], question["dtype"])
    return max(question["flops"] / peak, question["nbytes"] / bandwidth)


def _judge(case: Questions, evidence: dict) -> Iterator[Failure]:
    lost = list(_one_by_one.judge(case, evidence))
    if not lost and case.criteria == ("bound",):
        lost += _bound_problems(case.questions, [value_of(answer["returned"]) for answer in evidence["answers"]])
    yield from lost


def _bound_problems(questions: list[dict], values: list[dict]) -> Iterator[Failure]:
    """By the rates that the function's own times tell: a peak that is misread is held against it once."""
    peak = bandwidth = 1.0
    for question, value in zip(questions, values, strict=True):
        flops, nbytes, seconds = question["flops"], question["nbytes"], value["seconds"]
        if not (flops and nbytes):
            if type(seconds) not in (int, float) or not 0 < seconds < inf:
                yield Failure(
                    "bound", "Without arithmetic the traffic takes its time, and without traffic the arithmetic."
                )
                return
            peak, bandwidth = (flops / seconds if flops else peak), (nbytes / seconds if nbytes else bandwidth)
        if problem := _bound_problem(value, flops, nbytes, peak, bandwidth):
            yield Failure("bound", problem)


def _bound_problem(value: dict, flops: int, nbytes: int, peak: float, bandwidth: float) -> str | None:
    """A group of questions begins with its peak alone, so its ridge is known from the second on."""
    if value["bound"] != ("compute" if flops / peak >= nbytes / bandwidth else "memory"):
        return 'The bound is wrong: it is whichever of the two takes longer, and "compute" where they tie.'
    if nbytes and not _is(value["ridge"], peak / bandwidth):
        return "The ridge is wrong: it is where peak and bandwidth take the same time, in operations a byte."
    return None


def _is(value: object, expected: float) -> bool:
    return type(value) in (int, float) and isclose(value, expected, rel_tol=1e-6)


def _criteria(name: str, points: float, says: str, *requires: str) -> Criterion:
    return Criterion(name, points, says, requires)


def _traits(flops: int, nbytes: int, card: dict, dtype: str) -> dict[str, str]:
    (_, memory_unit), (_, unit, kind) = card["memory"], card["peaks"][dtype]
    peak, bandwidth = _rates(card, dtype)
    return {
        "what takes longer": "the arithmetic" if flops / peak > nbytes / bandwidth else "the traffic",
        "the format": f"`{dtype}`",
        "the format's peak": f"`{kind}`",
        "the peak's unit": f"`{unit}`",
        "the memory's unit": f"`{memory_unit}`",
        "`flops`": "greater than 0" if flops else "0",
        "`nbytes`": "greater than 0" if nbytes else "0",
    }


_one_by_one = answers(
    criteria=(
        _criteria("seconds", 2, "the time is that of the arithmetic or of the traffic, whichever is longer"),
        _criteria("dense", 2, "a peak with sparsity is not taken for dense matrices"),
        _criteria("formats", 1, "the peak is that of the format asked for"),
        _criteria("units", 1, "every unit of a datasheet is read"),
        _criteria("bound", 1, "the bound and the ridge point are right"),
        _criteria("errors", 1, "a format without a peak and invalid counts are refused with ValueError", "formats"),
    ),
    cases=_roofline_cases,
    arguments=lambda question: (question["flops"], question["nbytes"], question["card"], question["dtype"]),
    wrong=_wrong,
    kept="The function changed the card that it was given.",
    in_kernel=True,
    traits=lambda question: _traits(**question),
)
exercise = replace(_one_by_one, judge=_judge)
