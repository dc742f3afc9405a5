"""E3.1 add_vectors: what runs beside the learner's function."""

from autograder.runner.card import idle_card
from autograder.runner.scenario_runner import Learner
from exercises.execution.run import filled


def run(learner: Learner, case: dict) -> dict:
    """Have two vectors added on the card, watched."""
    with idle_card():
        a, b = case["a"].cuda(), case["b"].cuda()
        return filled(lambda out: learner.add_vectors(a, b, out, case["threads"]), a, b)
