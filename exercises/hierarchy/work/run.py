"""E4.4 work: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.hierarchy.run import plain


def run(learner: Learner, case: dict) -> dict:
    """Ask for each operation, its dictionary the same in every format."""
    answers = []
    for question in case["questions"]:
        operation = dict(question["operation"])
        asked = [outcome(lambda dtype=dtype: plain(learner.work(operation, dtype))) for dtype in question["dtypes"]]
        answers += [{**answer, "kept": operation == question["operation"]} for answer in asked]
    return {"answers": answers}
