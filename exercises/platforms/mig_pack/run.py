"""E20.4 mig_pack: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.platforms.run import ask_all


def run(learner: Learner, case: dict) -> dict:
    """Have every list of jobs packed."""
    return ask_all(learner.mig_pack, [([tuple(job) for job in one["jobs"]], one["gpus"]) for one in case["questions"]])
