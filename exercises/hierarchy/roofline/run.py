"""E4.5 roofline: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.hierarchy.run import ask


def run(learner: Learner, case: dict) -> dict:
    """Ask for each piece of work, on a card as a datasheet prints it."""
    return {"answers": [ask(learner.roofline, *_arguments(q)) for q in case["questions"]]}


def _arguments(question: dict) -> tuple:
    card = dict(question["card"])
    card["memory"] = tuple(card["memory"])
    card["peaks"] = {name: tuple(peak) for name, peak in card["peaks"].items()}
    return question["flops"], question["nbytes"], card, question["dtype"]
