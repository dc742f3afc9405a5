"""E5.2 transfer_time: cases and judge."""

from collections.abc import Iterator
from math import isclose
from typing import Any

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import type_name
from autograder.verdicts.questions import judge_questions

_ENCODINGS = ([8, 10], [128, 130], [64, 66], [242, 256])


def _transfer_time_cases(draw: Draw) -> Iterator[Case]:
    links = [_link(draw, unit) for unit in ("GB/s", "Gb/s") * 2]
    links += [{**_link(draw, unit), "rate": rate} for unit in ("GB/s", "Gb/s") for rate in (0.25, 2)]
    asked = [{"nbytes": draw.integer(10**6, 10**11), "link": link} for link in links]
    yield _case("units", asked + list(_whole_seconds(draw)))
    links = [{**_any(draw, unit), "counts": "both ways"} for unit in _UNITS]
    yield _case("directions", [{"nbytes": draw.integer(10**6, 10**11), "link": link} for link in links] * 2)
    yield _case("lanes", [{"nbytes": draw.integer(10**6, 10**11), "link": link} for link in _all_lanes(draw)])
    yield _case("latency", list(_late(draw)))
    yield _case("errors", list(_refused(draw)), raises="ValueError")


_UNITS = ("GB/s", "Gb/s", "GT/s")


def _case(about: str, questions: list[dict], raises: str = "") -> Case:
    return Case((about,), {"questions": questions}, raises)


def _link(draw: Draw, unit: str) -> dict:
    return {"rate": draw.integer(10, 4000) / 4, "unit": unit, "counts": "one way", "latency_us": 0.0}


def _whole_seconds(draw: Draw) -> Iterator[dict]:
    rate = draw.integer(1, 400)
    for seconds in (1, draw.integer(2, 9)):
        yield {"nbytes": seconds * rate * 10**9, "link": {**_link(draw, "GB/s"), "rate": rate}}


def _any(draw: Draw, unit: str) -> dict:
    """A link of this unit; one of GT/s has one lane and no encoding, which other cases turn on."""
    return _lanes(draw, 1, [64, 64]) if unit == "GT/s" else _link(draw, unit)


def _lanes(draw: Draw, lanes: int, encoding: list[int]) -> dict:
    return {**_link(draw, "GT/s"), "rate": draw.choice((2.5, 5, 8, 16, 32)), "lanes": lanes, "encoding": encoding}


def _all_lanes(draw: Draw) -> Iterator[dict]:
    for lanes, encoding in zip(draw.each(1, 4, 8, 16), draw.each(*_ENCODINGS)):
        yield _lanes(draw, lanes, encoding)


def _late(draw: Draw) -> Iterator[dict]:
    """Few and many bytes and messages, more messages than bytes, no bytes; each unit."""
    small, large, many = draw.integer(1, 4096), draw.integer(10**6, 10**8), draw.integer(20, 900)
    yield {"nbytes": 0, "link": _link(draw, "GB/s")}
    for unit in _UNITS:
        for nbytes, messages in (
            (small, 1),
            (large, many),
            (draw.integer(1, 9), many),
            (0, 1),
            (0, many),
            (large, None),
        ):
            given = {} if messages is None else {"messages": messages}
            yield {"nbytes": nbytes, "link": {**_any(draw, unit), "latency_us": draw.integer(4, 60) / 4}, **given}
        both = {**_any(draw, unit), "counts": "both ways", "latency_us": draw.integer(4, 60) / 4}
        yield {"nbytes": 0, "link": both, "messages": many}


def _refused(draw: Draw) -> Iterator[dict]:
    """Each kind of bad input at each unit, with bytes to send and with none."""
    wrong = [{"unit": unit} for unit in ("GBps", "GiB/s", "MB/s", "B/s", "")]
    wrong += [{"counts": counts} for counts in ("total", "both", "one", "oneway", "one-way", "both_ways", "")]
    wrong += [{"counts": counts} for known in ("one way", "both ways") for counts in _misspelt(known)]
    wrong += [{"rate": rate} for rate in (0, -0.25, -draw.integer(1, 9))]
    for unit in _UNITS:
        for change in (*wrong, *({"unit": other} for other in _misspelt(unit))):
            yield {"nbytes": draw.choice((0, draw.integer(1, 999))), "link": {**_any(draw, unit), **change}}
        for question in (
            {"nbytes": -1},
            {"nbytes": -draw.integer(2, 999)},
            {"messages": 0},
            {"messages": -draw.integer(1, 9)},
        ):
            yield {"nbytes": draw.integer(1, 999), "link": _any(draw, unit), **question}
    yield {"nbytes": 0, "link": {**_link(draw, "GB/s"), "rate": 0}}
    yield {"nbytes": 0, "link": _link(draw, "Gb/s"), "messages": 0}


def _misspelt(known: str) -> Iterator[str]:
    """What one who is not strict about case and spaces takes for ``known``."""
    for other in (known.lower(), known.upper(), known.swapcase(), known.capitalize(), known[:-1] + known[-1].upper()):
        if other not in (*_UNITS, known):
            yield other
    yield from (f" {known}", f"{known} ", known.replace("/", " / ").replace(" ", "  "))


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


def _wrong(about: str, question: dict, value: Any) -> str | None:
    due = _seconds(question)
    if type(value) is not float:
        return f"The function returned {type_name(value)}; expected a float, in seconds."
    if isclose(value, due, rel_tol=1e-6):
        return None
    return f"{_by_how_much(value, due)}. {_HINTS[about]}"


def _judge_transfer_time(case: Case, evidence: dict) -> Iterator[Lost]:
    if evidence["links"] != [question["link"] for question in case.inputs["questions"]]:
        yield Lost(case.about[0], "A link's dictionary was changed: it is the caller's, to be read only.")
        return
    yield from judge_questions(_wrong)(case, evidence)


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
        _about("errors", 1, "an invalid link or number of bytes is refused with ValueError", "units"),
    ),
    cases=_transfer_time_cases,
    judge=_judge_transfer_time,
)
