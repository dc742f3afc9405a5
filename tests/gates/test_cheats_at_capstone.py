"""Cheating solutions to the chapter "Capstone: fix a slow, unstable job" score zero."""

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"capstone.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def test_figures_that_no_run_gave_justify_no_change():
    """Who knows the faults has still to measure: the referee runs the job and compares."""

    def guessed(job):
        figures = {"input_us": "workers read ahead", "races": "pinned buffers", "reads": "clip by one norm"}
        return [
            (change, figure, job.targets[figure] + 1, 0.0) for figure, change in list(figures.items())[: job.changes]
        ]

    assert score("triage", guessed) == 0
