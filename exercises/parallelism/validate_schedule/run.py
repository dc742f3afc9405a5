"""E16.2 validate_schedule: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.parallelism.run import answer_to


def run(learner: Learner, case: dict) -> dict:
    """Have every table judged; how it is after that, and which libraries were called."""
    return answer_to(case, lambda q: learner.validate_schedule(q["table"], q["stages"], q["microbatches"]), "table")
