"""E20.1 cold_start: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.platforms.run import ask_all


def run(learner: Learner, case: dict) -> dict:
    """Ask for every plan's timeline."""
    return ask_all(learner.cold_start, [(plan,) for plan in case["questions"]])
