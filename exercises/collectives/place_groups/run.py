"""E13.3 place_groups: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question, and look whether the list and the dictionary are as they were."""
    answers = []
    for question in case["questions"]:
        dims, topology = [tuple(dim) for dim in question["dims"]], dict(question["topology"])
        asked, machines = list(dims), dict(topology)
        answer = outcome(lambda q=question, d=asked, t=machines: _listed(learner.place_groups(q["world"], d, t)))
        answers.append({**answer, "kept": (asked, machines) == (dims, topology)})
    return {"answers": answers}


def _listed(value: object) -> object:
    return list(value) if isinstance(value, list) else value
