"""E22.1 triage: what runs beside the learner's function."""

from autograder.runner.plain import plain
from autograder.runner.scenario_runner import Learner
from gpulab.capstone import Ticket


def run(learner: Learner, case: dict) -> dict:
    """Hand over the broken job; keep what came back and every run."""
    job = Ticket(case.pop("planted"), case["changes"], case["runs"])
    returned = learner.triage(job)
    log = [{"changes": list(changes), "figures": dict(report.figures)} for changes, report in job.made]
    return {"returned": plain(returned), "log": log}
