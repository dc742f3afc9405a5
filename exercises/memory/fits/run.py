"""E9.3 fits: what runs beside the learner's function."""

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask every question with the same two dictionaries, whose entries are others each time."""
    model: dict = {}
    gpu: dict = {}
    return {"answers": [_verdict(learner, question, model, gpu) for question in case["questions"]]}


def _verdict(learner: Learner, question: dict, model: dict, gpu: dict) -> dict:
    for held, expected in ((model, question["model"]), (gpu, question["gpu"])):
        held.clear()
        held.update(expected)
    answer = outcome(lambda: learner.fits(model, gpu, question["mode"], question["batch"], question["sequence"]))
    if isinstance(answer.get("returned"), dict):
        unchanged = (model, gpu) == (question["model"], question["gpu"])
        answer["returned"] = {**_copied(answer["returned"]), "unchanged": unchanged}
    return answer


def _copied(entries: dict) -> dict:
    """As it is now: the next question may be answered in the same dictionary."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in entries.items()}
