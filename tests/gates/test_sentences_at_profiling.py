"""What a learner is told at chapter "Profiling: finding the bottleneck": the fault is named, and not another."""

import threading
from pathlib import Path

import pytest

from autograder.authoring.text import read_text_notebook
from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.notebooks.cells import solution_of
from autograder.runner.scenario_runner import run_case

PROFILING = Path(__file__).parents[2] / "exercises" / "profiling" / "notebook.py"


def told(exercise: str, function, seed: int = 7) -> dict[str, str]:
    """The sentence for each lost criterion."""
    name = f"profiling.{exercise}"
    verdict = judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))
    return {line.criterion: line.message for line in verdict.lines if line.status != "earned"}


@pytest.fixture(scope="module")
def solution():
    def found(exercise: str):
        import torch

        namespace: dict = {"torch": torch}
        exec(solution_of(read_text_notebook(PROFILING), exercise), namespace)
        return namespace[exercise]

    return found


def test_a_factor_of_all_numbers_is_no_fault_of_their_terms(solution):
    mfu = solution("mfu")
    assert {*told("mfu", lambda **job: tuple(share / 2 for share in mfu(**job)))} == {"peak", "value"}
    assert {*told("mfu", lambda **job: tuple(share * 100 for share in mfu(**job)))} == {"value"}
    assert {*told("mfu", lambda **job: tuple(share / 3 for share in mfu(**job)))} == {
        "parameters",
        "attention",
        "value",
    }


def test_rounded_numbers_are_called_rounded(solution):
    mfu = solution("mfu")
    lost = told("mfu", lambda **job: tuple(round(share, 9) for share in mfu(**job)))
    assert lost and all("rounded" in sentence for sentence in lost.values())


def test_an_argument_that_should_be_refused_is_named():
    def any_share(**job):
        if job["n_gpus"] < 1:
            raise ValueError("cards")
        return 0.4, 0.5

    sentence = told("mfu", any_share)["errors"]
    assert "a tuple; expected ValueError" in sentence
    assert any(
        name in sentence
        for name in (
            "card",
            "`dtype`",
            "`n_params`",
            "`layers`",
            "`width`",
            "`seq`",
            "`n_lookup`",
            "`tokens_per_s`",
            "`again`",
        )
    )


def test_a_tuple_is_called_a_tuple_where_an_error_is_expected():
    times = dict.fromkeys(("input", "sync", "launch", "communication", "compute", "memory"), 1.0)
    assert "a tuple; expected ValueError" in told("diagnose", lambda trace, work, ridge: ("launch", times))["errors"]


def test_a_wrong_time_in_an_odd_trace_is_first_looked_for_in_a_plain_one(solution):
    diagnose = solution("diagnose")

    def late_hosts(trace, work, ridge):
        verdict, times = diagnose(trace, work, ridge)
        return verdict, times | {"launch": times["launch"] + times["sync"], "sync": 0.0}

    lost = told("diagnose", late_hosts)
    assert "begin there" in lost["formats"]
    assert "add up to the window" in lost["window"]


def test_a_library_that_does_the_work_is_named():
    def by_intervals(trace, work, ridge):
        from gpulab.traces.intervals import length

        return "launch", {"launch": length([(0, 1)])}

    lost = told("diagnose", by_intervals)
    assert len(lost) == 8
    assert all("this exercise is answered in plain Python, without gpulab" in sentence for sentence in lost.values())


def test_a_step_that_raises_in_a_thread_prints_nothing_of_the_scenario(capfd):
    def in_threads(step, n, wait, warmup, active, path):
        for _ in range(n):
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
        return {}

    before = threading.excepthook
    assert "exceptions" in told("profile_steps", in_threads)
    out, err = capfd.readouterr()
    assert "scenarios" not in out + err
    assert threading.excepthook is before
