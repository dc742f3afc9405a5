"""Cheating solutions to the chapter "Tensor, pipeline and 3D parallelism" score zero."""

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from gpulab.parallel import violations


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"parallelism.{exercise}"
    return judge_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed)).score


def test_the_librarys_judge_is_not_an_answer():
    def borrowed(table, stages, microbatches):
        found = violations(table, stages, microbatches)
        return [(one.kind, str(one.action.stage) if one.kind == "split" else str(one.action)) for one in found]

    assert score("validate_schedule", borrowed) == 0
