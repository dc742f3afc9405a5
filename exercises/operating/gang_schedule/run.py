"""E21.1 gang_schedule: what runs beside the learner's function."""

from autograder.runner.questions import answered
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
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
