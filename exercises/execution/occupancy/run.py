"""E3.5 occupancy: what runs beside the learner's function."""

from types import SimpleNamespace

from autograder.runner.library_calls import library_calls
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask for the blocks that a multiprocessor holds; it may have been asked about before, when it held fewer."""
    sm = SimpleNamespace(**case["sm"])
    if case.get("refilled"):
        sm.max_blocks = 1
        learner.occupancy(*case["launch"], sm)
        sm.max_blocks = case["sm"]["max_blocks"]
    with library_calls("torch", "numpy", "numba", "gpulab") as called:
        result = learner.occupancy(*case["launch"], sm)
    return {"result": result, "called": sorted(called)}
