"""E12.2 diagnose: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.profiling.run import ask_all


def run(learner: Learner, case: dict) -> dict:
    """Have each trace judged."""
    traces = [
        (trace, {name: tuple(counts) for name, counts in work.items()}, ridge) for trace, work, ridge in case["traces"]
    ]
    return ask_all(learner.diagnose, traces)
