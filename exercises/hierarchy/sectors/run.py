"""E4.1 sectors: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.hierarchy.run import ask


def run(learner: Learner, case: dict) -> dict:
    """Ask for each request of a warp."""
    return {"answers": [ask(learner.sectors, q["addresses"], q["item_bytes"]) for q in case["questions"]]}
