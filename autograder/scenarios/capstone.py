"""Runs the learner's functions for the chapter "Capstone: fix a slow, unstable job" and records what they did."""

from autograder.scenario_runner import Learner
from autograder.scenarios.outcome import outcome
from autograder.scenarios.plain import plain
from gpulab.capstone import Ticket
from gpulab.cards.cards import CARDS
from gpulab.memory import SHAPES

PRELOAD = ("torch._dynamo", "gpulab.cuda.device.install")


def triage(learner: Learner, case: dict) -> dict:
    """Hand over the broken job; keep what came back and every run."""
    job = Ticket(case.pop("planted"), case["changes"], case["runs"])
    returned = learner.triage(job)
    log = [{"changes": list(changes), "figures": dict(report.figures)} for changes, report in job.made]
    return {"returned": plain(returned), "log": log}


def design_review(learner: Learner, case: dict) -> dict:
    """Have every specification reviewed."""
    asked = [spec | {"shape": SHAPES[spec["shape"]], "card": CARDS[spec["card"]]} for spec in case["specs"]]
    return {"answers": [outcome(lambda spec=spec: plain(learner.design_review(spec))) for spec in asked]}
