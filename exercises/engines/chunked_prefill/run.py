"""E19.3, chunked_prefill: what its scheduler planned in engines that take turns, and how often it asked the clock."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from autograder.protocol.event_sink import emit_note
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.engines.run_played import MOST_STEPS, Recorded
from exercises.engines.shared import clock_of, engine_of
from gpulab.serving import PartError


def run(learner: Learner, case: dict) -> dict:
    """Run every trace to its end, a step of each in turn, with a scheduler of its own; all are made before the first step."""
    runs = [_Run(learner.chunked_prefill, play, number) for number, play in enumerate(case["plays"])]
    while [run for run in runs if run.goes_on()]:
        pass
    return {"records": [run.record for run in runs], "notes": []}


class _Run:
    """One engine with a learner's scheduler. record: as of ``engines_played``. Calls of the clock are told to the referee."""

    def __init__(self, make: Callable[..., Any], play: dict, number: int) -> None:
        self.record, self._engine = {"steps": []}, None
        made = outcome(lambda: make(_told(clock_of(play).step_us, self.record, number), play["gap_us"]))
        if "error" in made:
            self.record["error"] = made["error"]
            return
        scheduler = Recorded(made["returned"])
        self.record["steps"], self._engine = scheduler.steps, engine_of(play, scheduler)

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


def _told(clock: Callable[[Sequence[tuple[int, int]]], float], record: dict, run: int) -> Callable:
    """The clock as the learner gets it: each call is told as run, steps begun and a number of its own before it is answered."""
    numbers = count()

    def step_us(work: Sequence[tuple[int, int]]) -> float:
        emit_note(f"{run} {len(record['steps'])} {next(numbers)}")
        return clock(work)

    return step_us
