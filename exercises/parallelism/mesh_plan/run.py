"""E16.4 mesh_plan: what runs beside the learner's function."""

from autograder.runner.scenario_runner import Learner
from exercises.parallelism.run import answer_to


def run(learner: Learner, case: dict) -> dict:
    """Ask for every plan; how the two dictionaries are after that."""
    return answer_to(
        case, lambda q: learner.mesh_plan(q["model"], q["cluster"]), "model", "cluster", libraries=("gpulab",)
    )
