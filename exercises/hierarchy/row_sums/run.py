"""E4.2 row_sums: what runs beside the learner's function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from autograder.runner.card import idle_card
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.hierarchy.run import watched
from gpulab.kernels.simt import launcher


def run(learner: Learner, case: dict) -> dict:
    """Add up the rows: watched, of several matrices one by one, or launched for one that is too tall to interpret."""
    if "tall" in case:
        return _launched_only(learner.row_sums, case["tall"])
    return watched(learner.row_sums, case, "x")


def _launched_only(function: Callable, shape: list[int]) -> dict:
    """Whether the function's launches are such as a card takes; their kernels do not run."""
    with idle_card(), not_run():
        return {"answers": [outcome(lambda: function(torch.zeros(shape, device="cuda")) is None)]}


@contextmanager
def not_run() -> Iterator[None]:
    """Launches in the block are compiled and looked at, as a driver would, and that is all: the interpreter needs seconds."""
    run = launcher.Configured.__call__

    def looked_at(self: launcher.Configured, *arguments: object) -> None:
        launcher.check_launch(self.grid, self.block)
        self.kernel.compiled()

    launcher.Configured.__call__ = looked_at
    try:
        yield
    finally:
        launcher.Configured.__call__ = run
