"""E2.4 inplace_legal: what runs beside the learner's function."""

from autograder.runner.library_calls import library_calls
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask about each program; which libraries were called meanwhile."""
    with library_calls("torch", "numpy") as called:
        answers = [_answer_about(learner, program) for program in case["programs"]]
    return {"answers": answers, "called": sorted(called)}


def _answer_about(learner: Learner, program: list[list]) -> dict:
    steps = [tuple(step) for step in program]
    found = outcome(lambda: learner.inplace_legal(steps))
    if isinstance(found.get("returned"), list):
        found["returned"] = list(found["returned"])
    elif "returned" in found:
        found["returned"] = type(found["returned"]).__name__
    return {**found, "kept": steps == [tuple(step) for step in program]}
