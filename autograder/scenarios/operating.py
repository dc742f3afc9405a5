"""Runs the learner's functions for the chapter "Operating at scale: observability, failures, cost" and records what they did."""

from autograder.scenario_runner import Learner
from autograder.scenarios.questions import answered


def find_straggler(learner: Learner, case: dict) -> dict:
    """Have every job looked at."""
    return answered(learner.find_straggler, [(question["metrics"],) for question in case["questions"]], "gpulab")


def checkpoint_interval(learner: Learner, case: dict) -> dict:
    """Ask for every interval, or, where there are offers, for the one that is cheapest."""
    questions = case["questions"]
    if "offers" in questions[0]:
        return answered(learner.cheapest, [(q["offers"], q["cost"], q["restart"]) for q in questions], "gpulab")
    return answered(learner.checkpoint_interval, [(q["cost"], q["mtbf"], q["restart"]) for q in questions], "gpulab")


def chargeback(learner: Learner, case: dict) -> dict:
    """Have every bill shared out."""
    return answered(
        learner.chargeback, [(question["usage"], question["bill"]) for question in case["questions"]], "gpulab"
    )


def gang_schedule(learner: Learner, case: dict) -> dict:
    """Show every queue and its cluster; placements come back as pairs, since a key crosses as a text."""
    questions = [(question["jobs"], _with_numbers(question["cluster"])) for question in case["questions"]]
    return answered(lambda jobs, cluster: _in_pairs(learner.gang_schedule(jobs, cluster)), questions, "gpulab")


def _with_numbers(cluster: dict) -> dict:
    """Nodes by their numbers again."""
    running = [one | {"nodes": {int(node): gpus for node, gpus in one["nodes"].items()}} for one in cluster["running"]]
    return cluster | {"running": running}


def _in_pairs(started: object) -> object:
    """A list of starts whose placements are lists of pairs; anything else as it is."""
    if type(started) is not list:
        return started
    return [
        (one[0], list(one[1].items())) if type(one) in (tuple, list) and len(one) == 2 and type(one[1]) is dict else one
        for one in started
    ]
