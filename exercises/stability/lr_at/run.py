"""E17.2 lr_at: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question, and look whether the config stayed. One run's config is one object, as in a training loop."""
    alike: dict = {}
    return {"answers": [_rate(learner, q["asked"], alike) for q in case["questions"]]}


def _rate(learner: Learner, asked: list, alike: dict) -> dict:
    step, config = asked
    handed = alike.setdefault(repr(config), dict(config))
    found = outcome(lambda: _number(learner.lr_at(step, handed)))
    kept = handed == config
    return found | {"kept": kept}


def _number(value: object) -> object:
    """NumPy's float64 is a float too."""
    return float(value) if isinstance(value, float) else value
