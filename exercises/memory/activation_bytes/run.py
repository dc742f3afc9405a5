"""E9.2 activation_bytes: what runs beside the learner's function."""

import torch

from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask about each shape, watched; then measure the notebook's decoder where the question says so."""
    shapes = [_shape(question) for question in case["questions"]]
    with observe() as seen:
        answers = [
            outcome(lambda: learner.activation_bytes(shape, *q["how"]))
            for shape, q in zip(shapes, case["questions"], strict=True)
        ]
    answers = [
        answer | {"kept": shape == _shape(q)}
        for answer, shape, q in zip(answers, shapes, case["questions"], strict=True)
    ]
    measured = [learner.saved_bytes(_shape(q), *q["how"]) if q["measure"] else None for q in case["questions"]]
    return {"answers": answers, "measured": measured, "seen": seen.to_dict()}


def _shape(question: dict) -> dict:
    return question["shape"] | {"dtype": getattr(torch, question["shape"]["dtype"])}
