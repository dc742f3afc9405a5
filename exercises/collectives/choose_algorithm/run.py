"""choose_algorithm: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.collectives.run import job


def run(learner: Learner, case: dict) -> dict:
    """Ask every question in turn."""
    return {"answers": [outcome(lambda q=q: _plain(learner.choose_algorithm(*job(q)))) for q in case["questions"]]}


def _plain(value: object) -> object:
    """As it is now: the next question may be answered in the same dictionary."""
    return dict(value) if isinstance(value, dict) else value
