"""E7.4 linear_silu: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.kernels.run import launched
from exercises.kernels.run_large import launched_large


def run(learner: Learner, case: dict) -> dict:
    """One layer, its bias and its activation."""
    if "shapes" in case:
        return launched_large(learner.linear_silu, case["shapes"], case["dtype"])
    return launched(learner.linear_silu, [case["x"], case["weight"], case["bias"]], again=case["again"])
