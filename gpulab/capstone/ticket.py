"""A broken job as someone is given it: what it has to reach, and what that may cost."""

from collections.abc import Sequence

from gpulab.capstone.job import Job
from gpulab.capstone.registry import OPTIONS
from gpulab.capstone.remembered import Remembered
from gpulab.capstone.report import Report
from gpulab.capstone.target import healthy, targets


class OutOfRuns(RuntimeError):
    """The job may not be run again."""


class Ticket:
    """targets: by figure the most that is allowed. losses: those of the experiment that was asked for.
    changes: how many may be made. runs: how often the job may be run. offered: the names of the changes that there are.
    made: the changes and the report of every run so far, in order.
    """

    def __init__(self, planted: Sequence[str], changes: int, runs: int) -> None:
        self.targets, self.losses = targets(), healthy().losses
        self.changes, self.runs = changes, runs
        self.offered = tuple(sorted(OPTIONS))
        self.made: list[tuple[tuple[str, ...], Report]] = []
        self._remembers = Remembered(Job(planted)).run

    def run(self, changes: Sequence[str] = ()) -> Report:
        """The job with these changes made, in this order, and no others.

        Raises ValueError for a change that is not offered, and OutOfRuns after ``runs`` runs.
        """
        if len(self.made) >= self.runs:
            raise OutOfRuns(f"the job was run {self.runs} times")
        found = self._remembers(tuple(changes))
        self.made.append((tuple(changes), found))
        return found
