"""E12.3 profile_steps: cases and judge. Each step does another number of products, so that counts tell which were recorded."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, error_problem, raised_problem, type_name
from gpulab import Observation

_RUN = ("calls", "recorded", "warmup", "file", "table", "device")
_STOPPED = "exercises.profiling.profile_steps.run_steps.Stopped"
_NEAR_US = 0.01
_POINTWISE = ("sigmoid", "tanh", "exp", "sqrt", "neg")
"""Operations with one kernel each, of which a plan has one: names that are looked for do not find it."""


# ---- what is drawn


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield Case(_RUN, {"observed": False, "plans": sampler.permutation(list(_on_host(sampler)))})
    for wait, warmup, active, rest in sampler.shuffled((1, 1, 2, 9), (2, 0, 1, 0)):
        yield Case(_RUN, {"observed": True, "plans": [_plan(sampler, wait, warmup, active, rest, device="cuda")]})
    yield Case(
        ("exceptions",), {"observed": False, "plans": sampler.permutation(list(_stopped(sampler)))}, raises=_STOPPED
    )
    yield Case(
        ("errors",), {"observed": False, "plans": sampler.permutation(list(_refused(sampler)))}, raises="ValueError"
    )


def _plan(
    sampler: Sampler, wait: int, warmup: int, active: int, rest: int, device: str = "cpu", stops: int = 0
) -> dict:
    """``rest``: steps after the recorded ones. ``stops``: the call that raises."""
    n = wait + warmup + active + rest
    least = sampler.integer(2, 3)
    operations = [[least + number, sampler.integer(1, 3)] for number in range(max(n, 0))]
    mark, pointwise = f"part {sampler.integer(10**5, 10**6)}", sampler.choice(_POINTWISE)
    return {
        "n": n,
        "wait": wait,
        "warmup": warmup,
        "active": active,
        "device": device,
        "operations": operations,
        "mark": mark,
        "pointwise": pointwise,
        "stops": stops,
    }


def _on_host(sampler: Sampler) -> Iterator[dict]:
    """From the first step or later, warmed up or not, to the last step or with so many after it that all could begin again."""
    for plan in sampler.shuffled((0, 0, 1, 5), (0, 2, 2, 0), (2, 0, 3, 1), (3, 2, 2, 16), (1, 3, 1, 0)):
        yield _plan(sampler, *plan)


def _stopped(sampler: Sampler) -> Iterator[dict]:
    """In a step before the profiler is prepared, while it warms up, in the first and the last recorded one, and after it."""
    for call in sampler.shuffled(1, 3, 4, 5, 6):
        yield _plan(sampler, 2, 1, 2, 3, stops=call)


def _refused(sampler: Sampler) -> Iterator[dict]:
    for wait, warmup, active, rest in sampler.shuffled(
        (1, 1, 2, -1),
        (0, 0, 1, -1),
        (2, 2, 3, -sampler.integer(2, 6)),
        (-1, 1, 2, 3),
        (-1, 0, 2, 3),
        (1, -1, 2, 3),
        (3, -2, 2, 0),
        (1, 1, 0, 3),
        (0, 0, 0, 0),
        (0, 0, 0, 1),
        (2, 2, -1, 5),
    ):
        yield _plan(sampler, wait, warmup, active, rest)


# ---- what is wrong


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    plans, answers = case.inputs["plans"], evidence["answers"]
    if problem := count_problem(answers, len(plans)):
        yield from (Failure(criteria, problem) for criteria in case.criteria)
        return
    times = _times_on_card(case, evidence)
    for plan, answer in zip(plans, answers, strict=True):
        if case.raises:
            if problem := _raising_problem(case, plan, answer):
                yield Failure(case.criteria[0], problem)
        else:
            yield from _run_problems(plan, answer, times)


def _raising_problem(case: Case, plan: dict, answer: dict) -> str | None:
    if case.raises == "ValueError":
        if problem := error_problem(answer, case.raises):
            return f"{problem} These are not steps of which at least one can be recorded."
        return "The step was called before the error was raised." if answer["calls"] else None
    if case.raises not in answer.get("error", {}).get("kinds", ()) or answer["as_raised"] is not True:
        return "An exception that the step raises is to come out as it is."
    if answer["calls"] != plan["stops"]:
        return "The step was called again after it had raised, or not as often as before."
    return "A profiler was still on after the exception." if answer["left_on"] else None


def _run_problems(plan: dict, answer: dict, times: list[dict[str, float]]) -> Iterator[Failure]:
    if "error" in answer:
        yield from (Failure(criteria, raised_problem(answer["error"])) for criteria in _RUN)
        return
    found = {
        "calls": _calls_problem(plan, answer),
        "recorded": _recorded_problem(plan, answer),
        "warmup": _warmup_problem(plan, answer),
        "file": _file_problem(plan, answer),
        "table": _table_problem(plan, answer["returned"]),
        "device": _device_problem(plan, answer["returned"], times),
    }
    yield from (Failure(criteria, problem) for criteria, problem in found.items() if problem)


def _recorded(plan: dict) -> range:
    """The numbers of the steps that are to be recorded."""
    first = plan["wait"] + plan["warmup"]
    return range(first, first + plan["active"])


def _calls_problem(plan: dict, answer: dict) -> str | None:
    if answer["calls"] == plan["n"]:
        return None
    return f"The step was called {'more' if answer['calls'] > plan['n'] else 'less'} often than n says."


def _recorded_problem(plan: dict, answer: dict) -> str | None:
    expected = _recorded(plan)
    if not any(answer["recorded"]):
        return "No step was recorded: PyTorch's profiler was on in none of them. A schedule goes on when `prof.step()` says so."
    if answer["recorded"] != [number in expected for number in range(len(answer["recorded"]))]:
        return "The profiler was on in other steps than the active ones: of waiting, of warming up, or of what comes after."
    if answer["started"] != [expected.start] or answer["stopped"] != [expected.stop] or answer["left_on"]:
        return "The recording did not start before the first active step and stop after the last one, once."
    return None


def _warmup_problem(plan: dict, answer: dict) -> str | None:
    if answer["prepared"] == [plan["wait"]]:
        return None
    return "The profiler was not prepared once, when the waiting was over: it warms up during the steps before the active ones."


def _file_problem(plan: dict, answer: dict) -> str | None:
    if answer["files"] != ["trace.json"] or answer["file"] is None:
        return "There is no trace at the given path, or another file beside it, or no trace of Chrome's format in it."
    ranges = answer["file"]["ranges"]
    steps = {name: (start, end) for name, start, end in ranges if name.startswith("ProfilerStep#")}
    marks = [(name, start, end) for name, start, end in ranges if not name.startswith("ProfilerStep#")]
    expected = _recorded(plan)
    if len(ranges) != 2 * len(expected) or set(steps) != {f"ProfilerStep#{number}" for number in expected}:
        return "The trace does not hold one `ProfilerStep#` for each recorded step, with its number, and what that step did, and nothing else."
    for name, start, end in marks:
        low, high = steps.get(f"ProfilerStep#{name.rpartition(' ')[2]}", (end, start))
        if start < low - _NEAR_US or end > high + _NEAR_US:
            return "What a step did is not inside of its own `ProfilerStep#`: the range begins before the call and ends after it."
    if any(answer["file"]["operations"].get(name, 0) != count for name, count in _counts(plan).items()):
        return "The trace does not hold the operations of the recorded steps: once each."
    if plan["device"] == "cuda" and answer["file"]["kernels"] != sum(
        _counts(plan)[name] for name in _with_kernels(plan)
    ):
        return "The trace does not hold what the card did in the recorded steps."
    return None


def _operations(plan: dict) -> dict[str, int]:
    """By name: where its count stands in a step's plan. The first calls the second, and has no kernel."""
    return {"aten::matmul": 0, "aten::mm": 0, f"aten::{plan['pointwise']}": 1}


def _with_kernels(plan: dict) -> list[str]:
    return [*_operations(plan)][1:]


def _counts(plan: dict) -> dict[str, int]:
    return {
        name: sum(plan["operations"][number][place] for number in _recorded(plan))
        for name, place in _operations(plan).items()
    }


def _table_problem(plan: dict, table: Any) -> str | None:
    if not isinstance(table, dict):
        return f"The function returned {type_name(table)}; expected a dictionary."
    for name, count in _counts(plan).items():
        pair = table.get(name)
        if not isinstance(pair, list) or len(pair) != 2:
            return "The dictionary has no pair, a tuple of calls and time, for an operation that ran in the recorded steps."
        if type(pair[0]) is not int or pair[0] != count:
            return "The calls of an operation are not those of the recorded steps."
    return None


def _device_problem(plan: dict, table: Any, times: list[dict[str, float]]) -> str | None:
    if problem := _table_problem(plan, table):
        return problem
    for name in _operations(plan):
        told, expected = table[name][1], sum(times[number][name] for number in _recorded(plan)) if times else 0
        if type(told) not in (int, float) or abs(told - expected) > max(1e-6 * expected, _NEAR_US):
            return (
                "The self time on the device is not that of the operation's own kernels in the recorded steps, in microseconds: none on "
                "the host, and none of an operation that only calls others."
            )
    return None


def _times_on_card(case: Case, evidence: dict) -> list[dict[str, float]]:
    """Microseconds of each step's kernels by operation, from what the card told; empty where it took no part."""
    if not case.inputs["observed"]:
        return []
    (plan,) = case.inputs["plans"]
    own = [name.replace("::", ".") for name in _with_kernels(plan)]
    kernels = [each for each in Observation.from_dict(evidence["seen"]).kernels if each.name in own]
    operations = plan["operations"]
    ends = list(accumulate(sum(step) for step in operations))
    steps = [kernels[end - sum(step) : end] for end, step in zip(ends, operations)]
    return [{name: _spent(step, name.replace("::", ".")) for name in _operations(plan)} for step in steps]


def _spent(kernels: list, name: str) -> float:
    return sum(kernel.end_us - kernel.start_us for kernel in kernels if kernel.name == name)


exercise = Exercise(
    criteria=(
        Criterion("calls", 1, "the step is called exactly n times", ("recorded",)),
        Criterion("recorded", 3, "the active steps are recorded, and no others"),
        Criterion("warmup", 1, "the profiler is prepared when the waiting is over", ("recorded",)),
        Criterion("file", 2, "the trace holds each recorded step in a range of its own"),
        Criterion("table", 1, "the calls of each operation in the recorded steps are counted"),
        Criterion("device", 1, "the self times on the device are those of the recorded steps"),
        Criterion("exceptions", 1, "what a step raises comes out, and no profiler is left on", ("recorded",)),
        Criterion(
            "errors",
            1,
            "steps that cannot be profiled so are refused with ValueError, before any is called",
            ("recorded",),
        ),
    ),
    cases=_cases,
    judge=_judge,
)
