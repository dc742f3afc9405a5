"""E19, continuous_batcher: what it did."""

from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.engines.run_played import Recorded, in_turn
from exercises.engines.shared import engine_of


def run(learner: Learner, case: dict) -> dict:
    """Make a scheduler, or play groups of traces.

    A group is one scheduler's, for one trace after the other, or each trace has a scheduler of its own: all are made, then the
    engines take a step in turn.
    """

    def make(patience: Any) -> dict:
        return outcome(lambda: learner.continuous_batcher(patience))

    if "groups" in case:
        return {"groups": [_ran(make, group["plays"], group["one"]) for group in case["groups"]]}
    made = make(case["patience"])
    return made if "error" in made else {"class": type(made["returned"]).__name__, "returned": None}


def _ran(make: Any, plays: list[dict], one: bool) -> list[dict]:
    """Of each play its steps, and what was raised, which ends all."""
    made = [make(plays[0]["patience"])] * len(plays) if one else [make(play["patience"]) for play in plays]
    if any("error" in each for each in made):
        return [{"steps": [], "error": each.get("error")} for each in made]
    recorded = [Recorded(each["returned"]) for each in made]
    engines = [engine_of(play, each) for play, each in zip(plays, recorded, strict=True)]
    ran = outcome(lambda: [in_turn(engine) for engine in engines] if one else in_turn(*engines))
    return [{"steps": each.steps, **{key: ran[key] for key in ran if key == "error"}} for each in recorded]
