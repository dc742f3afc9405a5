"""E7.3 row_softmax: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.kernels.run import launched
from exercises.kernels.run_large import launched_large


def run(learner: Learner, case: dict) -> dict:
    """The softmax of one matrix, which may be a part of a wider one."""
    if "shapes" in case:
        return launched_large(learner.row_softmax, case["shapes"], case["dtype"])
    part = {"columns": case["columns"], "first": case["first"]}
    return launched(learner.row_softmax, [case["x"]], again=case["again"], **part)
