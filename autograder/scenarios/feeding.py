"""Runs the learner's functions for the chapter "Feeding the device" and records what they did."""

import os
from typing import Any
from unittest.mock import patch

import numpy as np

from autograder.scenario_runner import Learner
from autograder.scenarios.feeding_loader import make_loader as make_loader
from autograder.scenarios.feeding_shards import tar_shards as tar_shards
from autograder.scenarios.library_calls import gpulab_answers
from autograder.scenarios.outcome import outcome


def pipeline_throughput(learner: Learner, case: dict) -> dict:
    """Ask every question; ``called``: whether gpulab answered."""
    with gpulab_answers() as called:
        answers = [outcome(lambda q=q: _answer(learner, q)) for q in case["questions"]]
    return {"answers": answers, "called": sorted(called)}


def _answer(learner: Learner, question: dict):
    """The stages as tuples: they cross as lists."""
    found = learner.pipeline_throughput(**question | {"stages": [tuple(stage) for stage in question["stages"]]})
    return [_plain(value) for value in found] if isinstance(found, (tuple, list)) else found


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's: no others cross."""
    return value.item() if isinstance(value, np.generic) else value


def pick_workers(learner: Learner, case: dict) -> dict:
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
