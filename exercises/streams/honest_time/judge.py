"""E6.1 honest_time: cases and judge."""

import statistics
from collections.abc import Iterator

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, type_name
from gpulab import Observation
from gpulab.observe import Kernel
from gpulab.units import plural

_WAITS_ALLOWED = 2
_TOLERANCE = 0.05
"""Relative, of 300 us and more: a launch and an event record may show."""
_IDLE_US = 1.0
"""Between two kernels of one stream: more than rounding, less than any launch."""
_APART = 0.12
"""What the calls in the places of the median differ from it by at least, as a share of it."""


def _honest_time_cases(sampler: Sampler) -> Iterator[Case]:
    counts = {
        "warmup": [1, sampler.integer(2, 4)],
        "iters": [1, 2, 2 * sampler.integer(2, 3) + 1, 2 * sampler.integer(2, 4)],
    }
    for strata in sampler.cover(**counts, parts=[1, 3], again=[False, True]):
        yield _steady("device_time", sampler, **strata)
    for warmup, iters in sampler.shuffled((0, 1), (0, 3), (1, 1), (2, 2)):
        yield _steady("earlier", sampler, warmup, iters, before_us=sampler.integer(20_000, 40_000))
    yield from (_cold(sampler, iters) for iters in sampler.shuffled(1, 2, 3))
    yield from (_steady("cold", sampler, warmup=0, iters=iters) for iters in sampler.shuffled(1, 3))
    yield from (
        _uneven(sampler, iters) for iters in sampler.shuffled(2, sampler.choice([5, 7]), sampler.choice([4, 6]))
    )
    yield _steady("waits", sampler, warmup=sampler.integer(2, 4), iters=sampler.integer(260, 280))
    for warmup, iters in sampler.shuffled((0, 1), (2, 5)):
        yield _steady("stream", sampler, warmup, iters, side_stream=True, before_us=sampler.integer(2_000, 4_000))
    for warmup, iters in sampler.shuffled((1, 0), (0, 0), (sampler.integer(1, 3), -sampler.integer(1, 3))):
        yield _steady("errors", sampler, warmup, iters, raises="ValueError")
    for warmup, iters in sampler.shuffled((-1, 1), (-sampler.integer(2, 4), sampler.integer(2, 3)), (-1, 0)):
        yield _steady("errors", sampler, warmup, iters, raises="ValueError")


def _case(
    criteria: str,
    us: list[int],
    warmup: int,
    iters: int,
    parts=1,
    before_us=0,
    side_stream=False,
    again=False,
    raises="",
) -> Case:
    inputs = {"us": us, "warmup": warmup, "iters": iters, "parts": parts, "before_us": before_us}
    because = f"iters is {iters}" if iters < 1 else f"warmup is {warmup}"
    settles = (criteria,) if raises else tuple(dict.fromkeys((criteria, "waits", "stream")))
    return Case(settles, inputs | {"side_stream": side_stream, "again": again}, raises, because)


def _steady(criteria: str, sampler: Sampler, warmup: int, iters: int, **others) -> Case:
    return _case(criteria, [sampler.integer(300, 900)], warmup, iters, **others)


def _cold(sampler: Sampler, iters: int) -> Case:
    """The first calls take long, as those do that load a library or choose an algorithm."""
    warm, warmup = sampler.integer(300, 900), sampler.integer(4, 6)
    return _case("cold", [warm * 20] * warmup + [warm], warmup, iters)


def _uneven(sampler: Sampler, iters: int) -> Case:
    """Each call takes another time, in an order in which no other statistic is near the median."""
    warmup = sampler.integer(1, 3)
    us = [round(3**call * sampler.integer(300, 330)) for call in range(iters)]
    us[-1] *= 10
    expected = statistics.median(us)
    while iters > 2 and any(abs(other - expected) < _APART * expected for other in _by_place(us)):
        us = sampler.permutation(us)
    return _case("median", [us[0]] * warmup + us, warmup, iters)


def _by_place(us: list[int]) -> list[float]:
    """What is taken for the median by where it stands and not by its size."""
    half = len(us) // 2
    return [us[half], us[-half - 1], (us[half] + us[-half - 1]) / 2, us[0], us[-1]]


def _judge_honest_time(case: Case, evidence: dict) -> Iterator[Failure]:
    criteria = case.criteria[0]
    if case.raises:
        if problem := error_problem(evidence, case.raises, case.because):
            yield Failure(criteria, problem)
        return
    seen = Observation.from_dict(evidence["seen"])
    found = _kernels_of_calls(case, seen)
    wrong = _calls_problem(case, evidence, found) or _result_problem(case, evidence["result"])
    if wrong:
        yield Failure(criteria, wrong)
    if problem := _waits_problem(seen, found, knows=not wrong):
        yield Failure("waits", problem)
    if problem := _stream_problem(evidence, found):
        yield Failure("stream", problem)


def _kernels_of_calls(case: Case, seen: Observation) -> list[Kernel]:
    """The kernels of the function's calls, told by how long they take from any that the solution adds."""
    us, parts, calls = case.inputs["us"], case.inputs["parts"], case.inputs["warmup"] + case.inputs["iters"]
    expected = [us[min(call, len(us) - 1)] / parts for call in range(calls) for _ in range(parts)]
    found: list[Kernel] = []
    for kernel in seen.kernels:
        took = kernel.end_us - kernel.start_us
        if kernel.name == "spin_kernel" and len(found) < len(expected) and abs(took - expected[len(found)]) < 0.5:
            found.append(kernel)
    return found if len(found) == len(expected) else []


def _calls_problem(case: Case, evidence: dict, found: list[Kernel]) -> str | None:
    warmup, iters, calls = case.inputs["warmup"], case.inputs["iters"], evidence["calls"]
    counts = case.criteria[0] in ("device_time", "cold")
    if found and (calls == warmup + iters or not counts):
        return None
    if calls == warmup + iters:
        return "The calls of fn were not seen on the device, each with the time that it takes there."
    return f"fn is called {plural(calls, 'time')} with warmup {warmup} and iters {iters}; expected {warmup + iters}."


def _result_problem(case: Case, result: object) -> str | None:
    if type(result) is not float:
        return f"The function returned {type_name(result)}; expected a float."
    expected = _expected(case)
    if _close(result, expected):
        return None
    for factor, unit in ((1e-3, "milliseconds"), (1e-6, "seconds")):
        if _close(result, expected * factor):
            return f"The time is in {unit}; expected microseconds."
    if case.criteria[0] == "stream":
        return "The work is in the caller's current stream, which need not be the default one: another stream is timed."
    if case.criteria[0] == "median":
        return (
            "One call's time is not another's, and the result is not their median: that is the middle one in order of "
            "size, or, of an even number, the mean of the two in the middle."
        )
    if result < 0.2 * expected:
        return "The time is far below the device's: the host's clock was read while the device was still at work."
    return _too_long(case)


def _too_long(case: Case) -> str:
    if case.criteria[0] == "earlier":
        return "Work that was in the stream before the first call is charged to it: wait for it, or mark its end."
    if case.criteria[0] == "cold":
        return "The warm-up calls are in the result: what only the first calls do is not what one call takes."
    return "The result is not the device's time for one call: something else is in it, such as the calls before."


def _expected(case: Case) -> float:
    us, warmup = case.inputs["us"], case.inputs["warmup"]
    calls = range(warmup, warmup + case.inputs["iters"])
    return float(statistics.median(us[min(call, len(us) - 1)] for call in calls))


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= _TOLERANCE * b


def _waits_problem(seen: Observation, found: list[Kernel], knows: bool) -> str | None:
    if len(seen.waits) > _WAITS_ALLOWED:
        return (
            f"The host waited {plural(len(seen.waits), 'time')} ({seen.waits[-1].reason}), where two are enough: a wait "
            "after each call empties the queue, and the next launch is timed with it."
        )
    if found and len(seen.waits) + (asked := _asked(seen, found, knows)) > _WAITS_ALLOWED:
        return (
            f"Beside {plural(len(seen.waits), 'wait')} the host asked {plural(asked, 'time')} again and again whether the "
            "device was done, or slept: the device stood idle before the next call. That is a wait by another name."
        )
    return None


def _asked(seen: Observation, found: list[Kernel], knows: bool) -> int:
    """How often the stream of the calls ran empty while the host asked: between two, and at the end if it ``knows`` the time."""
    first = found[0]
    row = [kernel for kernel in seen.kernels if kernel.stream == first.stream and kernel.start_us >= first.start_us]
    idle = [
        (before.end_us, after.start_us)
        for before, after in zip(row, row[1:])
        if after.start_us - before.end_us > _IDLE_US
    ]
    if knows:
        idle.append((max(kernel.end_us for kernel in found), float("inf")))
    return sum(
        not any(begin <= wait.end_us + _IDLE_US and wait.start_us <= end for wait in seen.waits) for begin, end in idle
    )


def _stream_problem(evidence: dict, found: list[Kernel]) -> str | None:
    if any(kernel.stream != evidence["stream"] for kernel in found) or evidence["stays"] is not True:
        return "The calls are timed in another stream than the caller's current one, or that is not current afterwards."
    return None


exercise = Exercise(
    criteria=(
        Criterion("device_time", 2, "the result is the device's time for one call, in microseconds"),
        Criterion("earlier", 1, "work that was in the stream before is not measured", ("device_time",)),
        Criterion("cold", 1, "the warm-up calls are made, none where warmup is 0, and not measured", ("device_time",)),
        Criterion("median", 1, "the result is the median of the calls", ("device_time",)),
        Criterion("waits", 1, "the host waits at most twice", ("device_time",)),
        Criterion(
            "stream", 1, "work on a stream other than the default one is timed too, and stays there", ("device_time",)
        ),
        Criterion("errors", 1, "invalid counts are refused", ("device_time",)),
    ),
    cases=_honest_time_cases,
    judge=_judge_honest_time,
)
