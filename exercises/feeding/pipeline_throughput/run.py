"""E11.1 pipeline_throughput: what runs beside the learner's function."""

from typing import Any

import numpy as np

from autograder.runner.library_calls import gpulab_answers
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question; ``called``: whether gpulab answered."""
    with gpulab_answers() as called:
        answers = [outcome(lambda q=q: _answer(learner, q)) for q in case["questions"]]
    return {"answers": answers, "called": sorted(called)}


def _answer(learner: Learner, question: dict):
    """The stages as tuples: they cross as lists."""
    found = learner.pipeline_throughput(**question | {"stages": [tuple(stage) for stage in question["stages"]]})
    return [_plain(value) for value in found] if isinstance(found, (tuple, list)) else found


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's: no others cross."""
    return value.item() if isinstance(value, np.generic) else value
