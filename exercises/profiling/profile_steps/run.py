"""E12.3 profile_steps: what runs beside the learner's function."""

from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.profiling.profile_steps.run_steps import profiled
from gpulab import cuda


def run(learner: Learner, case: dict) -> dict:
    """Have each plan's steps profiled, on the host or on a card that is observed."""
    if not case["observed"]:
        with cuda.use("off", quiet=True):
            return {"answers": [profiled(learner, plan) for plan in case["plans"]]}
    with cuda.use("virtual:H100", quiet=True), observe() as seen:
        answers = [profiled(learner, plan) for plan in case["plans"]]
    return {"answers": answers, "seen": seen.to_dict()}
