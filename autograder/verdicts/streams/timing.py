"""E6.1 honest_time: cases and judge."""

import statistics
from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import error_problem, type_name
from gpulab import Observation
from gpulab.units import plural

_WAITS_ALLOWED = 2
_TOLERANCE = 0.08
"""Relative: launches and event records may show; a wrong unit, clock or statistic is far off."""


def _honest_time_cases(draw: Draw) -> Iterator[Case]:
    for iters in (1, 2 * draw.integer(2, 4) + 1):
        yield _steady("device_time", draw, warmup=draw.integer(1, 3), iters=iters)
    yield _steady("earlier", draw, warmup=0, iters=3, before_us=draw.integer(20_000, 40_000))
    yield _cold(draw)
    yield _hiccup(draw)
    yield _steady("waits", draw, warmup=draw.integer(2, 4), iters=2 * draw.integer(5, 9) + 1)
    yield _steady("stream", draw, warmup=2, iters=5, side_stream=True)
    yield _steady("errors", draw, warmup=1, iters=0, refused=True)
    yield _steady("errors", draw, warmup=-1, iters=draw.integer(1, 3), refused=True)


def _case(about: str, us: list[int], warmup: int, iters: int, before_us=0, side_stream=False, refused=False) -> Case:
    inputs = {"us": us, "warmup": warmup, "iters": iters, "before_us": before_us}
    return Case((about,), inputs | {"side_stream": side_stream, "refused": refused})


def _steady(about: str, draw: Draw, warmup: int, iters: int, **others) -> Case:
    return _case(about, [draw.integer(300, 900)], warmup, iters, **others)


def _cold(draw: Draw) -> Case:
    """The first calls take long, as those do that load a library or choose an algorithm."""
    warm, warmup = draw.integer(300, 900), draw.integer(4, 6)
    return _case("cold", [warm * 20] * warmup + [warm], warmup, iters=draw.integer(1, 3))


def _hiccup(draw: Draw) -> Case:
    """One measured call takes long, and the others differ a little."""
    warmup, iters = draw.integer(1, 3), 2 * draw.integer(4, 6) + 1
    us = [draw.integer(300, 340) for _ in range(warmup + iters)]
    us[warmup + draw.integer(1, iters - 2)] *= 40
    return _case("median", us, warmup, iters)


def _judge_honest_time(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    if case.inputs["refused"]:
        problem = error_problem(evidence, "ValueError")
    else:
        problem = _calls_problem(case, evidence) or _result_problem(case, evidence["result"])
    if problem is None and about == "waits":
        problem = _waits_problem(Observation.from_dict(evidence["seen"]), case.inputs["warmup"])
    if problem:
        yield Lost(about, problem)


def _calls_problem(case: Case, evidence: dict) -> str | None:
    warmup, iters, calls = case.inputs["warmup"], case.inputs["iters"], evidence["calls"]
    spins = sum(kernel["name"] == "spin_kernel" for kernel in evidence["seen"]["kernels"])
    if calls == warmup + iters and spins >= calls:
        return None
    if warmup and calls == iters:
        return "The function is called iters times in all; the warm-up calls are due before that."
    return "The function is not called warmup + iters times."


def _result_problem(case: Case, result: object) -> str | None:
    if type(result) is not float:
        return f"The function returned {type_name(result)}; a float is due."
    due = _due(case)
    if _close(result, due):
        return None
    for factor, unit in ((1e-3, "milliseconds"), (1e-6, "seconds")):
        if _close(result, due * factor):
            return f"The time is in {unit}; microseconds are due."
    if case.about == ("stream",):
        return "The work is in the caller's current stream, which need not be the default one: another stream is timed."
    if result < 0.2 * due:
        return "The time is far below the device's: the host's clock was read while the device was still at work."
    return _too_long(case, result)


def _too_long(case: Case, result: float) -> str:
    if case.about == ("earlier",):
        return "Work that was in the stream before the first call is charged to it: wait for it, or mark its end."
    if case.about == ("cold",):
        return "The warm-up calls are in the result: what only the first calls do is not what one call takes."
    if case.about == ("median",):
        return "One slow call moves the result: the median of single calls is due, not the mean or the total."
    return "The result is not the device's time for one call: something else is in it, such as the calls before."


def _due(case: Case) -> float:
    us, warmup = case.inputs["us"], case.inputs["warmup"]
    calls = range(warmup, warmup + case.inputs["iters"])
    return float(statistics.median(us[min(call, len(us) - 1)] for call in calls))


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= _TOLERANCE * b


def _waits_problem(seen: Observation, warmup: int) -> str | None:
    if len(seen.waits) <= _WAITS_ALLOWED:
        return None
    return (
        f"The host waited {plural(len(seen.waits), 'time')} ({seen.waits[-1].reason}), where two are enough: a wait "
        "after each call empties the queue, and the next launch is timed with it."
    )


honest_time = Exercise(
    "streams.honest_time",
    criteria=(
        Criterion("device_time", 2, "the result is the device's time for one call, in microseconds"),
        Criterion("earlier", 1, "work that was in the stream before is not charged", ("device_time",)),
        Criterion("cold", 1, "the warm-up calls are not measured", ("device_time",)),
        Criterion("median", 1, "one slow call among many does not move the result", ("device_time",)),
        Criterion("waits", 1, "the host waits at most twice", ("device_time",)),
        Criterion("stream", 1, "work in a stream other than the default one is timed too", ("device_time",)),
        Criterion("errors", 1, "counts that make no sense are refused", ("device_time",)),
    ),
    cases=_honest_time_cases,
    judge=_judge_honest_time,
)
