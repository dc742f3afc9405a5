"""Runs each attempt in a forked process; exceeding the limit of time or memory loses every criterion."""

import math
import resource
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from autograder.authoring.authored import AuthoredExercise, HiddenTestBroken
from autograder.authoring.executed import executed_by
from autograder.notebooks.forked import STOPPED, end_after, forked, heard, silence

CPU_SECONDS, TIMES_THE_FIRST = 10.0, 10
CLOCK_TIMES_CPU = 20
"""A trial may last so many times its limit of processor time, on a busy machine too."""
MEMORY_BYTES = 6 << 30
NESTED_CALLS = 1000
"""Python's own limit, which a kernel has; libraries in this process may have raised it."""


class Trial(NamedTuple):
    """``source`` in the solution cell of ``authored``, with each of ``seeds``."""

    authored: Any
    source: str
    seeds: tuple[int, ...]
    to_the_first: bool = False
    """A seed ends with the first case that lost something: enough to know that a mutant loses."""
    until: frozenset[str] = frozenset()
    """A seed ends with the case by which these criteria are lost: enough to know that a mistake loses them."""
    checked: bool = True
    """Whether the visible check runs before the hidden tests, as in a notebook: it may take longer than they do."""
    may_break: bool = False
    """Whether the hidden tests may break, as a cheat breaks them: what it loses is then what counts."""

    def go_on(self) -> None:
        """In a process of its own, before ``lost``: run the notebook from the solution cell on."""
        with silence():
            self.authored.go_on(self.source, self.authored.grade_id if self.checked else self.authored.check)

    def lost(self, seed: int) -> list[str]:
        """The criteria lost; where a hidden test broke, the sentence that says so, which no attempt is to lose."""
        try:
            with silence():
                return sorted(self.authored.lost(self.source, seed, self.to_the_first, self.until))
        except HiddenTestBroken as why:
            return why.lost if self.may_break else [str(why)]


@dataclass
class IsolatedRuns:
    """Runs trials, ``jobs`` at once. Forked children share what is imported already."""

    jobs: int = 1
    cpu_seconds: float = 20.0
    """A trial may use ``CPU_SECONDS`` and this for its notebook, and again for each of its seeds."""

    def after(self, authored: Any, source: str) -> None:
        """Try ``source`` here first: what it imports and compiles is then there in every process.

        With one thread, as in all of them: a pool of OpenMP's does not live through a fork. A trial may
        then take ``TIMES_THE_FIRST`` as long for each seed.
        """
        torch.set_num_threads(1)
        authored.begin(anew=True)
        authored.lost(source, 1)
        began = time.process_time()
        authored.lost(source, 2)
        self.cpu_seconds = TIMES_THE_FIRST * (time.process_time() - began)

    def executed(self, authored: AuthoredExercise) -> dict[str, str]:
        """The digest of each file that plays of its solution execute."""
        return executed_by(authored)

    def all(self, trials: list[Trial]) -> list[list[list[str]]]:
        """For each trial and each of its seeds the criteria lost, in order."""
        for trial in trials:
            trial.authored.begin()
        lost: list = [None] * len(trials)
        running: dict[Connection, tuple[int, Any]] = {}
        todo = list(reversed(range(len(trials))))
        while todo or running:
            while todo and len(running) < self.jobs:
                number = todo.pop()
                mine, process = self._started(trials[number])
                running[mine] = (number, process)
            for mine in wait(list(running)):
                number, process = running.pop(mine)
                lost[number] = heard(mine, process, [[STOPPED]] * len(trials[number].seeds))
        return lost

    def _started(self, trial: Trial) -> tuple[Connection, Any]:
        return forked(_try, math.ceil(CPU_SECONDS + self.cpu_seconds), trial)


def _try(its: Connection, limit: int, trial: Trial) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    end_after(CLOCK_TIMES_CPU * limit)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    sys.setrecursionlimit(NESTED_CALLS)
    trial.go_on()
    if len(trial.seeds) == 1:
        its.send([trial.lost(*trial.seeds)])
    else:  # each in a process forked from here: what the source keeps of one seed's calls is not there for the next
        its.send([heard(*forked(_try_seed, limit, trial, seed), [STOPPED]) for seed in trial.seeds])


def _try_seed(its: Connection, limit: int, trial: Trial, seed: int) -> None:
    end_after(CLOCK_TIMES_CPU * limit)
    its.send(trial.lost(seed))
