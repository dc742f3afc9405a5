"""E1.1 predict_view: what runs beside the learner's function."""

from autograder.runner.library_calls import library_calls
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question, watched: a prediction runs no operation and calls no array library."""
    questions = [[tuple(question[key]) for key in ("size", "stride", "new_size")] for question in case["questions"]]
    with observe() as seen, library_calls("torch", "numpy") as called:
        answers = [outcome(lambda: learner.predict_view(*question)) for question in questions]
    return {"answers": answers, "called": sorted(called), "seen": seen.to_dict()}
