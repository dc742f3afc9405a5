"""E21.3 find_straggler: what runs beside the learner's function."""

from autograder.runner.questions import answered
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Have every job looked at."""
    return answered(learner.find_straggler, [(question["metrics"],) for question in case["questions"]], "gpulab")
