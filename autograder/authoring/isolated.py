"""Runs each attempt in a forked process; exceeding the limit of time or memory loses every criterion."""

import contextlib
import io
import math
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from autograder.authoring.authored import HiddenTestBroken

CPU_SECONDS, TIMES_THE_FIRST = 10.0, 10
CLOCK_TIMES_CPU = 20
"""A trial may last so many times its limit of processor time, on a busy machine too."""
MEMORY_BYTES = 6 << 30
NESTED_CALLS = 1000
"""Python's own limit, which a kernel has; libraries in this process may have raised it."""
STOPPED = "(it was stopped)"
RAISED = 1
"""How a process of multiprocessing's ends whose function raised."""

_fork = multiprocessing.get_context("fork")


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
            return [str(why)]


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
                lost[number] = _heard(mine, process, [[STOPPED]] * len(trials[number].seeds))
        return lost

    def _started(self, trial: Trial) -> tuple[Connection, Any]:
        return _forked(_try, math.ceil(CPU_SECONDS + self.cpu_seconds), trial)


def in_a_fork(function: Callable[..., Iterable], *arguments: Any) -> list:
    """What ``function`` gives, of strings and numbers: what it leaves in its process, hooks say, is gone with it.

    Raises RuntimeError where it raises or its process ends.
    """
    mine, process = _forked(_tell, function, *arguments)
    if (told := _heard(mine, process, [STOPPED])) == [STOPPED]:
        raise RuntimeError(f"the process that ran {function.__name__} ended before it was done")
    return told


def _tell(its: Connection, function: Callable[..., Iterable], *arguments: Any) -> None:
    torch.set_num_threads(1)
    its.send(list(function(*arguments)))


def _forked(target: Callable, *arguments: Any) -> tuple[Connection, Any]:
    """Where ``target`` will be heard, to which the other end of a pipe is handed first, and its process."""
    mine, its = _fork.Pipe(duplex=False)
    process = _fork.Process(target=target, args=(its, *arguments))
    process.start()
    its.close()
    return mine, process


def _heard(mine: Connection, process: Any, stopped: list) -> list:
    """What a process sends, or ``stopped`` where it ended without. Raises RuntimeError for a fault of its exercise, not of its source."""
    with mine:
        try:
            told = mine.recv()
        except EOFError:
            told = stopped
    process.join()
    if process.exitcode == RAISED:
        raise RuntimeError("a trial ended with the traceback above: that is no verdict")
    return told


def _try(its: Connection, limit: int, trial: Trial) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    _end_after(CLOCK_TIMES_CPU * limit)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    sys.setrecursionlimit(NESTED_CALLS)
    trial.go_on()
    if len(trial.seeds) == 1:
        its.send([trial.lost(*trial.seeds)])
    else:  # each in a process forked from here: what the source keeps of one seed's calls is not there for the next
        its.send([_heard(*_forked(_try_seed, limit, trial, seed), [STOPPED]) for seed in trial.seeds])


def _try_seed(its: Connection, limit: int, trial: Trial, seed: int) -> None:
    _end_after(CLOCK_TIMES_CPU * limit)
    its.send(trial.lost(seed))


def _end_after(seconds: int) -> None:
    """Of the clock, since who sleeps uses no processor time."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def silence() -> contextlib.AbstractContextManager:
    """What a source says of races, for each seed anew."""
    return contextlib.redirect_stderr(io.StringIO())
