"""E21.4 chargeback: what runs beside the learner's function."""

from autograder.runner.questions import answered
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Have every bill shared out."""
    return answered(
        learner.chargeback, [(question["usage"], question["bill"]) for question in case["questions"]], "gpulab"
    )
