"""Cheating solutions to the chapter "Profiling: finding the bottleneck" score zero."""

import tempfile
from functools import cache
from pathlib import Path, PurePosixPath

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import cell_of, solution_of
from autograder.runner.scenario_runner import run_case
from gpulab.traces.intervals import union
from gpulab.traces.self_times import nested

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


def test_what_gpulab_answers_earns_nothing():
    asks = lambda events: list(nested([])) or solution("self_times")(events)
    assert score("self_times", asks) == 0
    assert score("diagnose", lambda *asked: union([]) or solution("diagnose")(*asked)) == 0


CAUSES = ("input", "sync", "launch", "communication", "compute", "memory")


def times_of(time):
    return dict.fromkeys(CAUSES, time)


def test_a_cheat_at_diagnose_earns_nothing():
    cheats = {
        **{f"always {cause}": lambda trace, work, ridge, cause=cause: (cause, times_of(0.0)) for cause in CAUSES},
    }
    earned = {what: score("diagnose", cheat) for what, cheat in cheats.items()}
    assert earned == dict.fromkeys(cheats, 0) != {}


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
