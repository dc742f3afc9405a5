"""E19, continuous_batcher: what it did."""

from typing import Any

from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.engines.run_played import Recorded, in_turn, played
from exercises.engines.shared import engine_of


def run(learner: Learner, case: dict) -> dict:
    """Make a scheduler, or play traces: each with a scheduler of its own, or several beside and after each other."""

    def make(play: dict) -> Any:
        return learner.continuous_batcher(play["patience"])

    if "plays" not in case:
        return outcome(lambda: type(make(case)).__name__)
    if not case["together"]:
        return {"plays": played(make, case["plays"])}
    return {
        "plays": played(make, case["plays"]),
        "beside": _beside(make, case["plays"]),
        "again": _again(make, case["plays"]),
    }


def _beside(make: Any, plays: list[dict]) -> list[dict]:
    """All schedulers are made, then the engines take a step in turn."""
    return _ran([outcome(lambda play=play: make(play)) for play in plays], plays, lambda engines: in_turn(*engines))


def _again(make: Any, plays: list[dict]) -> list[dict]:
    """One scheduler for the first trace, and then for the same once more."""
    made = outcome(lambda: make(plays[0]))
    return _ran([made, made], [plays[0], plays[0]], lambda engines: [in_turn(engine) for engine in engines])


def _ran(made: list[dict], plays: list[dict], run: Any) -> list[dict]:
    """Records as of :func:`exercises.engines.run_played.played`; what was raised ends all."""
    if any("error" in one for one in made):
        return [{"steps": [], "error": one.get("error")} for one in made]
    recorded = [Recorded(one["returned"]) for one in made]
    ran = outcome(lambda: run([engine_of(play, one) for play, one in zip(plays, recorded, strict=True)]))
    return [{"steps": one.steps, **{key: ran[key] for key in ran if key == "error"}} for one in recorded]
