"""E20.3 audit_network: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.platforms.run import ask_all


def run(learner: Learner, case: dict) -> dict:
    """Have every network audited. Pairs and triples come as lists, and are tuples in the notebook's own examples."""
    asked = [
        (one["graph"], {**one["policies"], "log": [tuple(entry) for entry in one["policies"]["log"]]})
        for one in case["questions"]
    ]
    return ask_all(learner.audit_network, asked)
