"""Runs the learner's functions for the chapter "Collectives and interconnects" and records what they did."""

from autograder.scenario_runner import Learner
from autograder.scenarios.collectives_ring import ring_all_reduce as ring_all_reduce
from autograder.scenarios.outcome import outcome

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")
"""What :func:`gpulab.collectives.run_ranks` imports before it forks."""


def collective_time(learner: Learner, case: dict) -> dict:
    """Ask every question in turn; the algorithm is left out where a ring is meant by leaving it out."""
    return {
        "answers": [outcome(lambda q=q: learner.collective_time(*_job(q), *q["algorithm"])) for q in case["questions"]]
    }


def choose_algorithm(learner: Learner, case: dict) -> dict:
    """Ask every question in turn."""
    return {"answers": [outcome(lambda q=q: _plain(learner.choose_algorithm(*_job(q)))) for q in case["questions"]]}


def _job(question: dict) -> tuple:
    return question["kind"], question["nbytes"], question["n"], tuple(question["alpha"]), tuple(question["beta"])


def _plain(value: object) -> object:
    """As it is now: the next question may be answered in the same dictionary."""
    return dict(value) if isinstance(value, dict) else value


def place_groups(learner: Learner, case: dict) -> dict:
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
