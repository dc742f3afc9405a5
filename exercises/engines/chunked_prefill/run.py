"""E19.3, chunked_prefill: what its scheduler planned in engines that take turns, and how often it asked the clock."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from autograder.protocol.event_sink import emit_note
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.engines.run_played import MOST_STEPS, Recorded
from exercises.engines.shared import clock_of, engine_of
from gpulab.serving import Blocks, Budget, Live, PartError, Plan

MOST_CALLS = 20_000
"""Of the clock, in a step."""


def run(learner: Learner, case: dict) -> dict:
    """Run every trace to its end, a step of each in turn, with a scheduler of its own; all are made before the first step."""
    runs = [_Run(learner.chunked_prefill, play) for play in case["plays"]]
    while [run for run in runs if run.goes_on()]:
        pass
    return {"records": [run.record for run in runs], "notes": []}


class _Run:
    """One engine with a learner's scheduler. record: as of ``engines_played``. Calls of the clock are told to the referee."""

    def __init__(self, make: Callable[..., Any], play: dict) -> None:
        self.record, self._engine = {"steps": []}, None
        steps = self.record["steps"]
        made = outcome(lambda: make(_asked(clock_of(play).step_us, steps), play["gap_us"]))
        if "error" in made:
            self.record["error"] = made["error"]
            return
        self._engine = engine_of(play, _Tidy(made["returned"], steps))

    def goes_on(self) -> bool:
        """Make a step; whether there was one to make."""
        if self._engine is None or not self._engine.busy or len(self.record["steps"]) >= MOST_STEPS:
            return False
        ran = outcome(self._step)
        if "error" in ran:
            self.record["error"] = ran["error"]
        if "error" in ran or ran["returned"] == "broken":
            self._engine = None
        return True

    def _step(self) -> str:
        try:
            self._engine.step()
        except PartError:
            return "broken"
        return "made"


class _Tidy(Recorded):
    """Tells where each plan begins and ends, and gives back what those hold who are left waiting: the engine would stop there."""

    def __init__(self, scheduler: Any, steps: list) -> None:
        super().__init__(scheduler)
        self.steps = steps

    def plan(self, waiting: Sequence[Live], running: Sequence[Live], blocks: Blocks, budget: Budget) -> Any:
        waits = list(waiting)
        emit_note("begins")
        plan = super().plan(waiting, running, blocks, budget)
        emit_note("ends")
        for live in [
            live for live in waits if isinstance(plan, Plan) and live not in plan.tokens and blocks.table(live)
        ]:
            self.steps[-1]["asked"].append(["leaked", live.name])
            blocks.release(live)
        return plan


def _asked(clock: Callable[[Sequence[tuple[int, int]]], float], steps: list) -> Callable:
    """The clock as the learner gets it. Who tries tokens one by one is stopped before time is up for all other plays."""
    calls = Counter()

    def step_us(work: Sequence[tuple[int, int]]) -> float:
        emit_note("asks")
        calls[len(steps)] += 1
        if calls[len(steps)] > MOST_CALLS:
            raise RuntimeError(f"step_us was asked more than {MOST_CALLS} times by one call of plan")
        return clock(work)

    return step_us
