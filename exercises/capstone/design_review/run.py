"""E22.2 design_review: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.plain import plain
from autograder.runner.scenario_runner import Learner
from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES


def run(learner: Learner, case: dict) -> dict:
    """Have every specification reviewed."""
    asked = [spec | {"shape": SHAPES[spec["shape"]], "card": CARDS[spec["card"]]} for spec in case["specs"]]
    return {"answers": [outcome(lambda spec=spec: plain(learner.design_review(spec))) for spec in asked]}
