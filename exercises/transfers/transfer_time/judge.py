"""E5.2 transfer_time: cases and judge."""

from collections.abc import Iterator
from math import isclose
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask, refuse

Question = tuple
"""Bytes, a link and, unless it is one, how many messages."""
_ENCODINGS = ((8, 10), (128, 130), (64, 66), (242, 256))


def _transfer_time_cases(sampler: Sampler) -> Iterator[Questions]:
    links = [_link(sampler, unit) for unit in ("GB/s", "Gb/s") * 2]
    links += [{**_link(sampler, unit), "rate": rate} for unit in ("GB/s", "Gb/s") for rate in (0.25, 2)]
    asked = [(sampler.integer(10**6, 10**11), link) for link in links]
    yield ask("units", asked + list(_whole_seconds(sampler)))
    links = [{**_any(sampler, unit), "counts": "both ways"} for unit in _UNITS]
    yield ask("directions", [(sampler.integer(10**6, 10**11), link) for link in links] * 2)
    yield ask("lanes", [(sampler.integer(10**6, 10**11), link) for link in _all_lanes(sampler)])
    yield ask("latency", list(_late(sampler)))
    yield refuse("errors", [(question, _why_refused(*question)) for question in _refused(sampler)])


_UNITS = ("GB/s", "Gb/s", "GT/s")


def _link(sampler: Sampler, unit: str) -> dict:
    return {"rate": sampler.integer(10, 4000) / 4, "unit": unit, "counts": "one way", "latency_us": 0.0}


def _whole_seconds(sampler: Sampler) -> Iterator[Question]:
    rate = sampler.integer(1, 400)
    for seconds in (1, sampler.integer(2, 9)):
        yield seconds * rate * 10**9, {**_link(sampler, "GB/s"), "rate": rate}


def _any(sampler: Sampler, unit: str) -> dict:
    """A link of this unit; one of GT/s has one lane and no encoding, which other cases turn on."""
    return _lanes(sampler, 1, (64, 64)) if unit == "GT/s" else _link(sampler, unit)


def _lanes(sampler: Sampler, lanes: int, encoding: tuple[int, int]) -> dict:
    return {**_link(sampler, "GT/s"), "rate": sampler.choice((2.5, 5, 8, 16, 32)), "lanes": lanes, "encoding": encoding}


def _all_lanes(sampler: Sampler) -> Iterator[dict]:
    for lanes, encoding in zip(sampler.shuffled(1, 4, 8, 16), sampler.shuffled(*_ENCODINGS)):
        yield _lanes(sampler, lanes, encoding)


def _late(sampler: Sampler) -> Iterator[Question]:
    """Few and many bytes and messages, more messages than bytes, no bytes; each unit."""
    small, large, many = sampler.integer(1, 4096), sampler.integer(10**6, 10**8), sampler.integer(20, 900)
    yield 0, _link(sampler, "GB/s")
    for unit in _UNITS:
        few = sampler.integer(1, 9)
        for nbytes, *messages in ((small, 1), (large, many), (few, many), (0, 1), (0, many), (large,)):
            yield nbytes, {**_any(sampler, unit), "latency_us": sampler.integer(4, 60) / 4}, *messages
        both = {**_any(sampler, unit), "counts": "both ways", "latency_us": sampler.integer(4, 60) / 4}
        yield 0, both, many


def _refused(sampler: Sampler) -> Iterator[Question]:
    """Each kind of bad input at each unit, with bytes to send and with none."""
    wrong = [{"unit": unit} for unit in ("GBps", "GiB/s", "MB/s", "B/s", "")]
    wrong += [{"counts": counts} for counts in ("total", "both", "one", "oneway", "one-way", "both_ways", "")]
    wrong += [{"counts": counts} for known in ("one way", "both ways") for counts in _misspelt(known)]
    wrong += [{"rate": rate} for rate in (0, -0.25, -sampler.integer(1, 9))]
    for unit in _UNITS:
        for change in (*wrong, *({"unit": other} for other in _misspelt(unit))):
            yield sampler.choice((0, sampler.integer(1, 999))), {**_any(sampler, unit), **change}
        yield from ((nbytes, _any(sampler, unit)) for nbytes in (-1, -sampler.integer(2, 999)))
        for messages in (0, -sampler.integer(1, 9)):
            yield sampler.integer(1, 999), _any(sampler, unit), messages
    yield 0, {**_link(sampler, "GB/s"), "rate": 0}
    yield 0, _link(sampler, "Gb/s"), 0


def _why_refused(nbytes: int, link: dict, messages: int = 1) -> str:
    if link["unit"] not in _UNITS:
        return f"the unit `{link['unit']}` is none of the three"
    if link["counts"] not in ("one way", "both ways"):
        return f"`counts` is `{link['counts']}`, neither `one way` nor `both ways`"
    if link["rate"] <= 0:
        return f"the rate {link['rate']} is not greater than 0"
    return f"nbytes {nbytes} is negative" if nbytes < 0 else f"messages {messages} is less than 1"


def _misspelt(known: str) -> Iterator[str]:
    """What one who is not strict about case and spaces takes for ``known``."""
    for other in (known.lower(), known.upper(), known.swapcase(), known.capitalize(), known[:-1] + known[-1].upper()):
        if other not in (*_UNITS, known):
            yield other
    yield from (f" {known}", f"{known} ", known.replace("/", " / ").replace(" ", "  "))


def _seconds(nbytes: int, link: dict, messages: int = 1) -> float:
    bits_per_second = link["rate"] * 1e9 * {"GB/s": 8, "Gb/s": 1, "GT/s": link.get("lanes", 1)}[link["unit"]]
    if "encoding" in link:
        bits_per_second *= link["encoding"][0] / link["encoding"][1]
    if link["counts"] == "both ways":
        bits_per_second /= 2
    return messages * link["latency_us"] / 1e6 + nbytes * 8 / bits_per_second


_HINTS = {
    "units": "GB/s counts 10^9 bytes, Gb/s 10^9 bits; the answer is in seconds.",
    "directions": "A rate that adds up both directions gives each of them half.",
    "lanes": "GT/s counts bits on each lane, and the encoding takes its share of them.",
    "latency": "Every message takes its latency, also one of no bytes.",
}


def _wrong(criteria: str, question: Question, value: Any) -> str | None:
    expected = _seconds(*question)
    if type(value) is not float:
        return f"The function returned {type_name(value)}; expected a float, in seconds."
    if isclose(value, expected, rel_tol=1e-6):
        return None
    what = (what for other, what in _misread(*question) if isclose(value, other, rel_tol=1e-6))
    return f"{next(what, _by_how_much(value, expected))}. {_HINTS[criteria]}"


def _misread(nbytes: int, link: dict, messages: int = 1) -> Iterator[tuple[float, str]]:
    """Times that are not those of the link, and what gives them."""
    yield _seconds(nbytes, {**link, "latency_us": 0}, messages), "The latency is left out"
    yield _seconds(nbytes, link), "The latency is counted once for all messages"
    if link["unit"] == "GT/s":
        yield _seconds(nbytes, {**link, "encoding": (1, 1)}, messages), "The encoding is left out"
        yield _seconds(nbytes, {**link, "encoding": link["encoding"][::-1]}, messages), "The encoding is upside down"
        yield _seconds(nbytes, {**link, "lanes": 1}, messages), "The lanes are left out"


def _by_how_much(value: float, expected: float) -> str:
    for factor, what in ((8, "8 times"), (2, "twice"), (1000, "1,000 times"), (1e6, "a million times")):
        if isclose(value, expected * factor, rel_tol=1e-3):
            return f"The time is {what} what it takes"
        if isclose(value * factor, expected, rel_tol=1e-3):
            return f"It takes {what} the time that is returned"
    return "The time is wrong"


def _traits(nbytes: int, link: dict, messages: int | None = None) -> dict[str, str]:
    counted = "left out" if messages is None else "1" if messages == 1 else "more than 1"
    lanes = {"`lanes`": f"{link['lanes']}"} if "lanes" in link else {}
    return {
        "the unit": f"`{link['unit']}`",
        "`counts`": f"`{link['counts']}`",
        "`messages`": counted,
        "`nbytes`": "greater than 0" if nbytes else "0",
        "`latency_us`": "greater than 0" if link["latency_us"] else "0",
        **lanes,
    }


def _criteria(name: str, points: float, says: str, *requires: str) -> Criterion:
    return Criterion(name, points, says, requires)


exercise = answers(
    criteria=(
        _criteria("units", 2, "bits and bytes a second become seconds"),
        _criteria("directions", 1, "a rate that counts both directions is halved", "units"),
        _criteria("lanes", 1, "lanes and encoding make a rate of GT/s", "units"),
        _criteria("latency", 2, "every message takes its latency", "units"),
        _criteria("errors", 1, "an invalid link or number of bytes is refused with ValueError", "units"),
    ),
    cases=_transfer_time_cases,
    arguments=lambda question: question,
    wrong=_wrong,
    kept="A link's dictionary was changed: it is the caller's, to be read only.",
    in_kernel=True,
    traits=lambda question: _traits(*question),
)
