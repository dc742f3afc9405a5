"""E3.3 divergence_cost: what runs beside the learner's function."""

from autograder.runner.library_calls import library_calls
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Ask for the instructions of a launch; the lists may have been asked about before, when they held something else."""
    kinds, costs = list(case["kinds"]), list(case["costs"])
    if case.get("refilled"):
        kinds[:], costs[:] = [0] * len(kinds), [1] * len(costs)
        learner.divergence_cost(kinds, costs, case["threads"])
        kinds[:], costs[:] = case["kinds"], case["costs"]
    with library_calls("torch", "numpy", "numba", "gpulab") as called:
        result = learner.divergence_cost(kinds, costs, case["threads"])
    return {"result": result, "called": sorted(called), "after": [kinds, costs]}
