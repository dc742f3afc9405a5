"""E11.2 pick_workers: what runs beside the learner's function."""

import os
from unittest.mock import patch

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Pick for each node, by rates that a script gives, off by the number of the call or of workers; every call is noted."""
    return {"nodes": [_picked(learner, node) for node in case["nodes"]]}


def _picked(learner: Learner, node: dict) -> dict:
    calls: list = []

    def measure(workers: int) -> float:
        calls.append(workers)
        if len(calls) >= node["raises_from"]:
            raise OSError(24, "Too many open files")
        off = node["noise"][(len(calls) if node["off_by"] == "call" else workers) % len(node["noise"])]
        return node["rates"][min(workers, len(node["rates"]) - 1)] * (1 + off)

    machine = 2 * max(node["cores"], default=0) + 3  # which has cores that the job may not run on
    with patch.object(os, "cpu_count", lambda: machine):
        found = outcome(lambda: learner.pick_workers(measure, set(node["cores"]), node["ranks_per_node"]))
    return found | {"calls": list(calls)}
