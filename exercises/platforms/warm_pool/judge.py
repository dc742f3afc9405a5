"""E20.2 warm_pool: cases and judge. The referee replays the decisions itself, beside a fixed pool chosen in hindsight."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem
from gpulab.platforms import day, fixed, keeping, pulses, quiet_nights, replay, steady

SETTLE = 300
MOST = {"steady": 1.5, "day": 0.85, "nights": 0.7, "pulses": 1.5}
REQUESTS_A_START = 12


def _cases(sampler: Sampler) -> Iterator[Case]:
    for kind in sampler.shuffled(*MOST):
        yield Case(("waits", "unused", "starts"), {"loads": [_load(sampler, kind)], "kinds": [kind], "twice": False})
    loads = [{**_load(sampler, kind), "times": times} for kind, times in (("day", [20, 6, 80]), ("pulses", [1, 1, 1]))]
    yield Case(
        ("apart",), {"loads": [{**load, "arrivals": load["arrivals"][600:1000]} for load in loads], "twice": True}
    )
    refused = [[0, 5, 60], [20, 0, 60], [20, 5, 0], [-1, 5, 60], [20, -2, 60], [20, 5, -60]]
    yield Case(("errors",), {"refused": sampler.permutation(refused)}, raises="ValueError")


def _load(sampler: Sampler, kind: str) -> dict:
    """A load on which six or so are at work at once, so that chance has its part."""
    cold, service, returns = sampler.choice((16, 20, 26)), sampler.integer(6, 10), sampler.integer(75, 120)
    seed, busy = sampler.integer(0, 10**6), sampler.integer(58, 74) / 10
    arrivals = {
        "steady": lambda: steady(2700, busy / service, seed),
        "day": lambda: day(2700, 1.8 * busy / service, seed),
        "nights": lambda: quiet_nights(3300, 1.6 * busy / service, seed, 600, 600),
        "pulses": lambda: pulses(
            2700, 0.2 * busy / service, seed, returns - sampler.integer(2, 6), sampler.integer(7, 9)
        ),
    }
    return {"arrivals": arrivals[kind](), "times": [cold, service, returns]}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.raises:
        answers = evidence["answers"]
        problems = (error_problem(answer, case.raises) for answer in answers)
        if problem := count_problem(answers, len(case.inputs["refused"])) or next(filter(None, problems), None):
            yield Failure("errors", problem)
    elif problem := _record_problem(case, evidence):
        yield from (Failure(criteria, problem) for criteria in case.criteria)
    elif case.criteria == ("apart",):
        yield from _apart(evidence["decided"])
    else:
        yield from _played(case.inputs["kinds"][0], case.inputs["loads"][0], evidence["decided"][0])


def _record_problem(case: Case, evidence: dict) -> str | None:
    decided, loads = evidence["decided"], case.inputs["loads"] * (2 if case.inputs["twice"] else 1)
    if problem := count_problem(decided, len(loads)):
        return problem
    if not all(_is_record(mine, load["arrivals"]) for mine, load in zip(decided, loads, strict=True)):
        return "What warm_pool returns is asked once in each second, and answers with an integer from 0 on."
    return None if evidence["kept"] is True else "decide changed the dictionary that it was handed."


def _is_record(decided: Any, arrivals: list[int]) -> bool:
    return (
        isinstance(decided, list)
        and len(decided) == len(arrivals)
        and all(type(one) is int and one >= 0 for one in decided)
    )


def _played(kind: str, load: dict, decided: list[int]) -> Iterator[Failure]:
    arrivals, (cold, service, _) = load["arrivals"], load["times"]
    mine = replay(lambda seen: decided[seen["second"]], arrivals, cold, service, SETTLE)
    size = keeping(arrivals, cold, service, 0, SETTLE)
    theirs = replay(fixed(size), arrivals, cold, service, SETTLE)
    if mine.percentile(99) > cold // 2:
        yield Failure("waits", _WAITS[kind])
    if mine.unused > MOST[kind] * theirs.unused:
        yield Failure("unused", _UNUSED[kind])
    if REQUESTS_A_START * mine.starts > len(mine.waits):
        yield Failure(
            "starts", "Instances are stopped and started again and again: what is needed soon again is to be kept."
        )


def _apart(decided: list[list[int]]) -> Iterator[Failure]:
    """Two pools that were asked one after the other, and two new ones that were asked the same in turn."""
    if decided[:2] != decided[2:]:
        yield Failure(
            "apart",
            "A pool that sees the same decides otherwise when another is asked in between: they share what they saw.",
        )


_WAITS = {
    "steady": "On a steady load requests wait for cold starts: chance needs a few instances more than the mean.",
    "day": "While the day's load grows, requests wait for cold starts.",
    "nights": "In the mornings requests wait for cold starts, more of them than one in a hundred.",
    "pulses": "Jobs that come by the clock wait for cold starts each time: they came before, and the mean does not show them.",
}
_UNUSED = {
    "steady": "On a steady load more is paid for nothing than a fixed pool needs.",
    "day": "The pool does not shrink while the day's load does.",
    "nights": "The pool waits through the nights.",
    "pulses": "For jobs that come by the clock more instances wait than the jobs need.",
}


exercise = Exercise(
    criteria=(
        Criterion("waits", 3, "99 of 100 requests begin within half a cold start, on every load"),
        Criterion("unused", 3, "what is paid unused is within its share of a fixed pool's, on every load", ("waits",)),
        Criterion("starts", 2, "instances are not stopped and started again", ("waits",)),
        Criterion("apart", 1, "pools decide apart from each other", ("waits",)),
        Criterion("errors", 1, "times that are none are refused with ValueError", ("waits",)),
    ),
    cases=_cases,
    judge=_judge,
)
