"""Runs the learner's functions for the chapter "Staying alive: stability, schedules, checkpoints" and records what they did."""

from autograder.scenario_runner import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.stability_clip import clip_global as clip_global
from autograder.scenarios.stability_guard import spike_guard as spike_guard
from autograder.scenarios.stability_saves import save_state as save_state

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def lr_at(learner: Learner, case: dict) -> dict:
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
