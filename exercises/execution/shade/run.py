"""E3.2 shade: what runs beside the learner's function."""

from autograder.runner.card import idle_card
from autograder.runner.scenario_runner import Learner
from exercises.execution.run import filled


def run(learner: Learner, case: dict) -> dict:
    """Have a picture shaded on the card, watched."""
    with idle_card():
        image, gain = case["image"].cuda(), case["gain"].cuda()
        return filled(lambda out: learner.shade(image, gain, out, tuple(case["block"])), image, gain)
