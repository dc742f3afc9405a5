"""E6.1 honest_time: what runs beside the learner's function."""

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.scenario_runner import Learner
from exercises.streams.run import callers_stream, plain, spin


class Spins:
    """A function to be timed: its n-th call keeps the device busy for the n-th of ``us``, by ``parts`` kernels."""

    def __init__(self, us: list[float], parts: int) -> None:
        self._us, self._parts, self.calls = us, parts, 0

    def __call__(self) -> None:
        us = self._us[min(self.calls, len(self._us) - 1)]
        self.calls += 1
        for _ in range(self._parts):
            spin(us / self._parts)


def run(learner: Learner, case: dict) -> dict:
    """Have the calls timed, behind other work, in another stream or a second time where the case says so."""
    spins, counts = Spins(case["us"], case["parts"]), (case["warmup"], case["iters"])
    fn = lambda: spins()
    with idle_card(), torch.cuda.stream(callers_stream(case["side_stream"])):
        here = torch.cuda.current_stream()
        if case["again"]:
            learner.honest_time(fn, *counts)
            spins.calls = 0
        spin(case["before_us"])
        with observe() as seen:
            result = learner.honest_time(fn, *counts)
        stays = torch.cuda.current_stream() == here
    told = {"calls": spins.calls, "stream": here.stream_id, "stays": stays}
    return {"result": plain(result), **told, "seen": seen.to_dict()}
