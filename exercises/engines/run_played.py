"""A learner's scheduler in the engine of ``gpulab.serving``: what it asked of the allocator and planned, step by step."""

from collections.abc import Callable, Sequence
from typing import Any

from autograder.runner.outcome import outcome
from exercises.engines.shared import engine_of
from gpulab.serving import Blocks, Budget, Engine, Live, PartError, Plan

MOST_STEPS = 5000
"""Of a play: more than its tokens, so that only a scheduler which keeps the engine from counting comes to so many."""


class Recorded:
    """A scheduler beside which everything is written down as the referee reads it: requests by name, numbers and lists."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler, self.steps = scheduler, []

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Any:
        self.steps.append(step := {"asked": [], "answered": None})
        plan = self._scheduler.plan(waiting, running, _Heard(blocks, step["asked"]), budget)
        step["answered"] = type(plan).__name__
        if isinstance(plan, Plan):
            step["tokens"] = [[_name(live), tokens] for live, tokens in plan.tokens.items()]
            step["preempt"] = [_name(live) for live in plan.preempt]
        return plan


class _Heard:
    """An allocator whose calls are written down."""

    def __init__(self, blocks: Blocks, asked: list) -> None:
        self._blocks, self._asked = blocks, asked

    total, size = (property(lambda self, name=name: getattr(self._blocks, name)) for name in ("total", "size"))
    free, shares = (property(lambda self, name=name: getattr(self._blocks, name)) for name in ("free", "shares"))

    def reserve(self, live: Live, tokens: int) -> bool:
        self._asked.append(["reserve", _name(live), tokens])
        return self._blocks.reserve(live, tokens)

    def release(self, live: Live) -> None:
        self._asked.append(["release", _name(live)])
        self._blocks.release(live)

    def table(self, live: Live) -> tuple[int, ...]:
        return tuple(self._blocks.table(live))


def _name(live: Any) -> str:
    return live.name if isinstance(live, Live) else type(live).__name__


def played(make: Callable[[dict], Any], plays: Sequence[dict]) -> list[dict]:
    """plays: as of :func:`exercises.engines.shared.engine_of`. Run each trace to its end or to the first rule that is broken, with a scheduler of its own.

    Of each: ``steps``, and ``error`` of what the learner's code raised. Which rules hold and what came of it is not said
    here: the referee runs the same steps once more in an engine of its own.
    """
    return [_played(make, play) for play in plays]


def _played(make: Callable[[dict], Any], play: dict) -> dict:
    made = outcome(lambda: make(play))
    if "error" in made:
        return {"steps": [], "error": made["error"]}
    recorded = Recorded(made["returned"])
    ran = outcome(lambda: in_turn(engine_of(play, recorded)))
    return {"steps": recorded.steps, **{key: ran[key] for key in ran if key == "error"}}


def in_turn(*engines: Engine) -> None:
    """Each takes a step, again and again, until all are done or one rule is broken."""
    for _ in range(MOST_STEPS):
        busy = [engine for engine in engines if engine.busy]
        try:
            for engine in busy:
                engine.step()
        except PartError:
            return
