"""The job: broken in a few parts, run as it is or with changes."""

from collections.abc import Sequence

import torch

import gpulab.cuda
from gpulab.capstone import decoys, faults, measured, parts  # noqa: F401 (three of them register what they hold)
from gpulab.capstone.registry import FAULTS, OPTIONS, RIGHT, Code
from gpulab.capstone.report import Report
from gpulab.capstone.session import Session
from gpulab.traces.run import StepProfile

CARD = "virtual:H100"


class Job:
    """A job with faults planted: names of :data:`gpulab.capstone.FAULTS`, at most one in each part.

    card: as ``gpulab.cuda.use`` takes it. All figures of the course are the virtual card's; on a real GPU times are measured,
    and nothing counts FLOPs. Raises ValueError for an unknown fault and for two in one part.
    """

    def __init__(self, planted: Sequence[str] = (), card: str = CARD) -> None:
        if unknown := set(planted) - set(FAULTS):
            raise ValueError(f"no fault is called {', '.join(sorted(unknown))}")
        broken = [FAULTS[name] for name in planted]
        if len({fault.part for fault in broken}) < len(broken):
            raise ValueError("two faults in one part")
        self.card = card
        code = RIGHT | {fault.part: fault.code for fault in broken}
        self._code = lambda: dict(code)

    def code(self, changes: Sequence[str] = ()) -> Code:
        """What runs in each part, once the changes have been made, a later one over an earlier one.

        Raises ValueError for a change that is not offered.
        """
        if unknown := [name for name in changes if name not in OPTIONS]:
            raise ValueError(f"no change is called {', '.join(map(str, unknown))}")
        code = self._code()
        for name in changes:
            code |= OPTIONS[name].code
        return code

    def run(self, changes: Sequence[str] = ()) -> Report:
        """Train on a fresh card and serve on another, with these changes made. On the virtual card the same in every run."""
        trained = self.train(changes)
        return measured.report(trained, self.serve(trained.weights, changes))

    def train(self, changes: Sequence[str] = ()) -> measured.Trained:
        """Train and evaluate alone."""
        code = self.code(changes)
        with gpulab.cuda.use(self.card, quiet=True):
            return measured.train(code)

    def serve(self, weights: dict[str, torch.Tensor], changes: Sequence[str] = ()) -> measured.Served:
        """Serve alone."""
        code = self.code(changes)
        with gpulab.cuda.use(self.card, quiet=True):
            return measured.serve(code, weights)

    def profile(self, changes: Sequence[str] = ()) -> StepProfile:
        """Where the time of the second step goes."""
        session_code = self.code(changes)
        with gpulab.cuda.use(self.card, quiet=True):
            return gpulab.profile(Session(session_code).step, steps=1, warmup=1)
