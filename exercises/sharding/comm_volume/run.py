"""E15.3 comm_volume: what runs beside the learner's function."""

from numbers import Integral

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question; what is answered is looked at before the next one is asked."""
    asked = case["questions"]
    return {
        "answers": [outcome(lambda q=q: _as_numbers(learner.comm_volume(*q["asked"], **q["named"]))) for q in asked]
    }


def _as_numbers(value: object) -> object:
    """The dictionary as it is now; its owner empties it then. Floats and integers of any class are Python's own."""
    if not isinstance(value, dict):
        return value
    plain = {key: _as_number(number) for key, number in value.items()}
    value.clear()
    return plain


def _as_number(number: object) -> object:
    if isinstance(number, float):
        return float(number)
    return int(number) if isinstance(number, Integral) and not isinstance(number, bool) else number
