"""E12.4 mfu: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.profiling.run import plain_outcome


def run(learner: Learner, case: dict) -> dict:
    """Ask for the utilisation of every job."""
    return {"answers": [plain_outcome(lambda call=call: learner.mfu(**call)) for call in case["calls"]]}
