"""Cheating solutions to the chapter "Profiling: finding the bottleneck" score zero."""

import json
import tempfile
from functools import cache
from itertools import cycle
from pathlib import Path, PurePosixPath

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of, solution_of
from autograder.runner.scenario_runner import run_case
from gpulab.traces.intervals import union
from gpulab.traces.self_times import nested
from tests.gates.threads import in_a_thread

PROFILING = Path(__file__).parents[2] / "exercises" / "profiling" / "notebook.py"


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"profiling.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


@cache
def solution(exercise: str):
    """The reference solution of an exercise."""
    text, names = read_text_notebook(PROFILING), {}
    exec(cell_of(text, "setup").source, names)
    exec(solution_of(text, exercise), names)
    return names[exercise]


def refuse_all(*given, **options):
    raise ValueError("no")


class AnyInteger(int):
    """Equal to every other, and neither less nor more."""

    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __hash__ = int.__hash__


class AnyNumber(float):
    """As near to whatever one likes as one likes."""

    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda self, other: True
    __sub__ = __rsub__ = __abs__ = __truediv__ = __rtruediv__ = lambda self, *other: self
    __hash__ = float.__hash__


class AgreeableList(list):
    """Equal to every list, so that a copy of what was handed in is as it was."""

    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None


def whole_on_the_host(events):
    return [event["duration_ns"] if event["device"] == "cpu" else None for event in events]


def emptied(events):
    """Nothing is left to be asked about."""
    count = len(events)
    events.clear()
    return [None] * count


def what_judges_it(*given, **options):
    """The answer of the referee, where it can be imported."""
    from exercises.profiling.self_times import judge

    return judge


def test_a_cheat_at_self_times_earns_nothing():
    cheats = {
        "durations": whole_on_the_host,
        "zeros": lambda events: [0 if event["device"] == "cpu" else None for event in events],
        "nothing": lambda events: [None] * len(events),
        "any": lambda events: [AnyInteger(1)] * len(events),
        "a list for every list": lambda events: AgreeableList(),
        "emptied": emptied,
        "the events": lambda events: events,
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
        "another thread": lambda events: in_a_thread(lambda: whole_on_the_host(events)),
    }
    assert {what: score("self_times", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_what_gpulab_answers_earns_nothing():
    asks = lambda events: list(nested([])) or solution("self_times")(events)
    assert score("self_times", asks) == 0
    assert score("diagnose", lambda *asked: union([]) or solution("diagnose")(*asked)) == 0


CAUSES = ("input", "sync", "launch", "communication", "compute", "memory")


def times_of(time):
    return dict.fromkeys(CAUSES, time)


def test_a_cheat_at_diagnose_earns_nothing():
    guesses = cycle(CAUSES)
    cheats = {
        **{f"always {cause}": lambda trace, work, ridge, cause=cause: (cause, times_of(0.0)) for cause in CAUSES},
        "one after the other": lambda trace, work, ridge: (next(guesses), times_of(10.0)),
        "any time": lambda trace, work, ridge: ("launch", times_of(AnyNumber(1.0))),
        "not a number": lambda trace, work, ridge: ("launch", times_of(float("nan"))),
        "endless": lambda trace, work, ridge: ("launch", times_of(float("inf"))),
        "all causes": lambda trace, work, ridge: (CAUSES, times_of(0.0)),
        "the trace": lambda trace, work, ridge: trace,
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    earned = {what: score("diagnose", cheat) for what, cheat in cheats.items()}
    assert earned == dict.fromkeys(cheats, 0) != {}


def steps_alone(step, n, wait, warmup, active, path):
    for _ in range(n):
        step()
    return {}


def a_trace_made_up(step, n, wait, warmup, active, path):
    """The expected ranges, and no profiler."""
    steps_alone(step, n, wait, warmup, active, path)
    names = [f"ProfilerStep#{number}" for number in range(wait + warmup, wait + warmup + active)]
    events = [
        {"ph": "X", "cat": "user_annotation", "name": name, "ts": 10 * at, "dur": 9} for at, name in enumerate(names)
    ]
    with open(path, "w") as file:
        json.dump({"traceEvents": events}, file)
    return {"aten::mm": (active, 0.0), "aten::sigmoid": (active, 0.0)}


def a_profiler_of_nothing(step, n, wait, warmup, active, path):
    """It records, and no step."""
    import torch

    with torch.profiler.profile() as prof:
        torch.ones(2) @ torch.ones(2)
    prof.export_chrome_trace(path)
    return steps_alone(step, n, wait, warmup, active, path)


def what_the_scenario_wrote_down(step, n, wait, warmup, active, path):
    """The list of what was recorded is made to say what is expected, without a profiler."""
    steps = step.__closure__[0].cell_contents
    steps.calls = n
    steps.recorded[:] = [wait + warmup <= number < wait + warmup + active for number in range(n)]
    return {}


class Stopped(Exception):
    """Another exception, that bears the name of the step's."""


Stopped.__module__ = "exercises.profiling.profile_steps.run_steps"


def another_exception(*given):
    try:
        return solution("profile_steps")(*given)
    except ValueError:
        raise
    except Exception:
        raise Stopped("not what the step said") from None


def a_second_file(*given):
    table = solution("profile_steps")(*given)
    Path(tempfile.gettempdir(), "second.json").write_bytes(Path(given[-1]).read_bytes())
    return table


def a_file_in_the_notebooks_folder(*given):
    table = solution("profile_steps")(*given)
    with open("second.json", "wb") as file:
        file.write(Path(given[-1]).read_bytes())
    return table


def names_that_are_no_texts(*given):
    return {PurePosixPath(name): pair for name, pair in solution("profile_steps")(*given).items()}


def names_that_are_looked_for(*given):
    table = solution("profile_steps")(*given)
    return {name: table.get(name, (0, 0.0)) for name in ("aten::matmul", "aten::mm", "aten::sigmoid")}


def test_what_is_done_otherwise_than_it_seems_loses_what_it_is_about():
    cheats = {
        "another exception": (another_exception, 10),
        "a second file": (a_second_file, 9),
        "a file in the notebook's folder": (a_file_in_the_notebooks_folder, 9),
        "names that are no texts": (names_that_are_no_texts, 9),
        "names that are looked for": (names_that_are_looked_for, 9),
    }
    assert {what: score("profile_steps", cheat) for what, (cheat, _) in cheats.items()} == {
        what: expected for what, (_, expected) in cheats.items()
    }


def test_a_cheat_at_profile_steps_earns_nothing():
    cheats = {
        "no profiler": steps_alone,
        "a trace made up": a_trace_made_up,
        "a profiler of nothing": a_profiler_of_nothing,
        "what was written down": what_the_scenario_wrote_down,
        "nothing at all": lambda *given: {},
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
        "another thread": lambda *given: in_a_thread(lambda: steps_alone(*given)),
    }
    assert {what: score("profile_steps", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_mfu_earns_nothing():
    cheats = {
        "a usual one": lambda *given, **job: (0.4, 0.5),
        "none": lambda *given, **job: (0.0, 0.0),
        "any": lambda *given, **job: (AnyNumber(0.4), AnyNumber(0.5)),
        "not a number": lambda *given, **job: (float("nan"), float("nan")),
        "a third more": lambda *given, again=0.0, **job: (0.3, 0.4),
        "the rate": lambda *given, **job: (float(job["n_gpus"]), float(job["tokens_per_s"])),
        "everything refused": refuse_all,
        "the verdict": what_judges_it,
    }
    assert {what: score("mfu", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
