"""E5.2 transfer_time: cases and judge."""

from collections.abc import Iterator
from math import isclose

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions


def _transfer_time_cases(draw: Draw) -> Iterator[Case]:
    links = [_link(draw, unit) for unit in ("GB/s", "Gb/s") * 3]
    yield _case("units", [{"nbytes": draw.integer(10**6, 10**11), "link": link} for link in links])
    links = [{**_link(draw, unit), "counts": "both ways"} for unit in ("GB/s", "Gb/s")]
    yield _case("directions", [{"nbytes": draw.integer(10**6, 10**11), "link": link} for link in links])
    yield _case("lanes", [{"nbytes": draw.integer(10**6, 10**11), "link": _lanes(draw)} for _ in range(4)])
    yield _case("latency", list(_late(draw)))
    yield _case("errors", list(_refused(draw)), refused=True)


def _case(about: str, questions: list[dict], refused: bool = False) -> Case:
    return Case((about,), {"questions": questions, "refused": refused})


def _link(draw: Draw, unit: str) -> dict:
    return {"rate": draw.integer(10, 4000) / 4, "unit": unit, "counts": "one way", "latency_us": 0.0}


def _lanes(draw: Draw) -> dict:
    rate, encoding = draw.choice(((5, [8, 10]), (8, [128, 130]), (16, [128, 130]), (32, [128, 130])))
    return {**_link(draw, "GT/s"), "rate": rate, "lanes": draw.choice((1, 4, 8, 16)), "encoding": encoding}


def _late(draw: Draw) -> Iterator[dict]:
    for nbytes, messages in ((draw.integer(1, 4096), 1), (draw.integer(10**6, 10**8), draw.integer(20, 900)), (0, 1)):
        latency = draw.integer(4, 60) / 4
        yield {"nbytes": nbytes, "link": {**_link(draw, "GB/s"), "latency_us": latency}, "messages": messages}


def _refused(draw: Draw) -> Iterator[dict]:
    for change in ({"unit": "GBps"}, {"unit": "gb/s"}, {"counts": "total"}, {"rate": 0}, {"rate": -draw.integer(1, 9)}):
        yield {"nbytes": draw.integer(1, 999), "link": {**_link(draw, "GB/s"), **change}}
    yield {"nbytes": -draw.integer(1, 999), "link": _link(draw, "GB/s")}
    yield {"nbytes": draw.integer(1, 999), "link": _link(draw, "Gb/s"), "messages": 0}


def _seconds(question: dict) -> float:
    link = question["link"]
    bits_per_second = link["rate"] * 1e9 * {"GB/s": 8, "Gb/s": 1, "GT/s": link.get("lanes", 1)}[link["unit"]]
    if "encoding" in link:
        bits_per_second *= link["encoding"][0] / link["encoding"][1]
    if link["counts"] == "both ways":
        bits_per_second /= 2
    return question.get("messages", 1) * link["latency_us"] / 1e6 + question["nbytes"] * 8 / bits_per_second


_HINTS = {
    "units": "GB/s counts 10^9 bytes, Gb/s 10^9 bits; the answer is in seconds.",
    "directions": "A rate that adds up both directions gives each of them half.",
    "lanes": "GT/s counts bits on each lane, and the encoding takes its share of them.",
    "latency": "Every message takes its latency, also one of no bytes.",
}


def _wrong(about: str, question: dict, answer: dict) -> str | None:
    if "returned" not in answer:
        return f"The function raised {answer['error']['type']} for a question that has an answer."
    value, due = answer["returned"], _seconds(question)
    if type(value) not in (int, float):
        return f"The function returned {type_name(value)}; seconds, a float, are due."
    if isclose(value, due, rel_tol=1e-6):
        return None
    return f"{_by_how_much(value, due)}. {_HINTS[about]}"


def _by_how_much(value: float, due: float) -> str:
    for factor, what in ((8, "8 times"), (2, "twice"), (1000, "1,000 times"), (1e6, "a million times")):
        if isclose(value, due * factor, rel_tol=1e-3):
            return f"The time is {what} what it takes"
        if isclose(value * factor, due, rel_tol=1e-3):
            return f"It takes {what} the time that is returned"
    return "The time is wrong"


def _about(name: str, points: float, says: str, *rests_on: str) -> Criterion:
    return Criterion(name, points, says, rests_on)


transfer_time = Exercise(
    "transfers.transfer_time",
    criteria=(
        _about("units", 2, "bits and bytes a second become seconds"),
        _about("directions", 1, "a rate that counts both directions is halved", "units"),
        _about("lanes", 1, "lanes and encoding make a rate of GT/s", "units"),
        _about("latency", 2, "every message takes its latency", "units"),
        _about("errors", 1, "what is no link and no number of bytes is refused with ValueError", "units"),
    ),
    cases=_transfer_time_cases,
    judge=judge_questions(_wrong),
)
