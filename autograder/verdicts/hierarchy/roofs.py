"""E4.3 roofline: cases and judge."""

from collections.abc import Iterator
from math import isclose

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions

_UNITS = {"GB/s": 1e9, "TB/s": 1e12, "TFLOPS": 1e12, "PFLOPS": 1e15}


def _roofline_cases(draw: Draw) -> Iterator[Case]:
    yield _case("seconds", [_question(draw, _card(draw), "fp32", side) for side in (0.2, 0.7, 1.5, 6.0)])
    yield _case("dense", [_question(draw, _card(draw, sparse=True), "fp32", side) for side in (1.2, 2.5, 0.7)])
    yield _case("formats", [_question(draw, _card(draw), dtype, 3.0) for dtype in ("bf16", "tf32", "fp8")])
    yield _case("units", [_question(draw, _card(draw, *units), "fp32", side) for units in _ODD_UNITS for side in (0.5, 2.0)])
    yield _case("bound", [_question(draw, _card(draw), "fp32", side) for side in (0.3, 4.0)] + list(_edges(draw)))
    yield _case("errors", list(_refused(draw)), refused=True)


_ODD_UNITS = [("TFLOPS", "TB/s"), ("PFLOPS", "TB/s"), ("PFLOPS", "GB/s")]


def _case(about: str, questions: list[dict], refused: bool = False) -> Case:
    return Case((about,), {"questions": questions, "refused": refused})


def _card(draw: Draw, peaks_in: str = "TFLOPS", memory_in: str = "GB/s", sparse: bool = False) -> dict:
    """A datasheet; each format has a peak of its own."""
    factor = _UNITS["TFLOPS"] / _UNITS[peaks_in]
    base = draw.integer(20, 99)
    peaks = {name: base * ratio * factor for name, ratio in (("fp32", 1), ("tf32", 3), ("bf16", 7), ("fp8", 11))}
    rate = draw.integer(300, 4800)
    return {
        "name": "a card",
        "memory": [rate * _UNITS["GB/s"] / _UNITS[memory_in], memory_in],
        "peaks": {name: [peak, peaks_in, "with sparsity" if sparse else "dense"] for name, peak in peaks.items()},
    }


def _rates(card: dict, dtype: str) -> tuple[float, float]:
    """Operations and bytes a second."""
    peak, unit, kind = card["peaks"][dtype]
    rate, per_second = card["memory"]
    return peak * _UNITS[unit] / (2 if kind == "with sparsity" else 1), rate * _UNITS[per_second]


def _question(draw: Draw, card: dict, dtype: str, side: float) -> dict:
    """Work whose arithmetic takes ``side`` times as long as its traffic."""
    peak, bandwidth = _rates(card, dtype)
    nbytes = draw.integer(10**6, 10**10)
    return {"flops": round(side * nbytes / bandwidth * peak), "nbytes": nbytes, "card": card, "dtype": dtype}


def _edges(draw: Draw) -> Iterator[dict]:
    """No arithmetic, no traffic, and a tie: powers of two apart, so that every formula finds it."""
    yield {"flops": 0, "nbytes": draw.integer(1, 10**9), "card": _card(draw), "dtype": "fp32"}
    yield {"flops": draw.integer(1, 10**9), "nbytes": 0, "card": _card(draw), "dtype": "fp32"}
    card = {"name": "a card", "memory": [2.0, "TB/s"], "peaks": {"fp32": [64.0, "TFLOPS", "dense"]}}
    nbytes = 2 ** draw.integer(10, 30)
    yield {"flops": 32 * nbytes, "nbytes": nbytes, "card": card, "dtype": "fp32"}


def _refused(draw: Draw) -> Iterator[dict]:
    card = _card(draw)
    yield {"flops": draw.integer(1, 10**9), "nbytes": draw.integer(1, 10**9), "card": card, "dtype": "fp64"}
    yield {"flops": -draw.integer(1, 99), "nbytes": draw.integer(1, 10**9), "card": card, "dtype": "fp32"}
    yield {"flops": draw.integer(1, 10**9), "nbytes": -draw.integer(1, 99), "card": card, "dtype": "bf16"}
    yield {"flops": 0, "nbytes": 0, "card": card, "dtype": "fp32"}


_HINTS = {
    "seconds": "Arithmetic and memory work at the same time: the longer of the two decides.",
    "dense": "A peak with sparsity is twice what dense matrices reach.",
    "formats": "Each format has a peak of its own.",
    "units": "T is 10^12 and G is 10^9, of bytes as of operations.",
    "bound": "",
}


def _wrong(about: str, question: dict, answer: dict) -> str | None:
    if "returned" not in answer:
        return f"The function raised {answer['error']['type']} for work that has an answer."
    value = answer["returned"]
    if not isinstance(value, dict) or set(value) != {"seconds", "bound", "ridge"}:
        return f'The function returned {type_name(value)}; a dictionary of "seconds", "bound" and "ridge" is due.'
    peak, bandwidth = _rates(question["card"], question["dtype"])
    arithmetic, traffic = question["flops"] / peak, question["nbytes"] / bandwidth
    if about == "bound":
        return _bound_problem(value, "compute" if arithmetic >= traffic else "memory", peak / bandwidth)
    if _is(value["seconds"], max(arithmetic, traffic)):
        return None
    return f"The time is wrong. {_HINTS[about]}"


def _bound_problem(value: dict, bound: str, ridge: float) -> str | None:
    if value["bound"] != bound:
        return 'The bound is wrong: it is whichever of the two takes longer, and "compute" where they tie.'
    if not _is(value["ridge"], ridge):
        return "The ridge is wrong: it is where peak and bandwidth take the same time, in operations a byte."
    return None


def _is(value: object, due: float) -> bool:
    return type(value) in (int, float) and isclose(value, due, rel_tol=1e-6)


def _about(name: str, points: float, says: str) -> Criterion:
    return Criterion(name, points, says, () if name == "seconds" else ("seconds",))


roofline = Exercise(
    "hierarchy.roofline",
    criteria=(
        _about("seconds", 2, "the time is that of the arithmetic or of the traffic, whichever is longer"),
        _about("dense", 2, "a peak with sparsity is not taken for dense matrices"),
        _about("formats", 1, "the peak is that of the format asked for"),
        _about("units", 1, "every unit of a datasheet is read"),
        _about("bound", 1, "what binds and where the ridge lies are right"),
        _about("errors", 1, "a format without a peak and counts that make no sense are refused with ValueError"),
    ),
    cases=_roofline_cases,
    judge=judge_questions(_wrong),
)
