"""Plays an exercise's hidden tests with forms of misconceptions, and says which explain what a function lost in the same tests.

python -m autograder.selfcheck.own_forms        reads a request a line, writes an answer a line

A process is forked for each exercise, in which its notebook has run as far as its function. Forms are played in forks of that.
"""

import multiprocessing
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, compress
from multiprocessing.connection import Connection
from operator import not_
from typing import Any

import msgspec
import torch

from autograder.core.exercise import Case, Exercise, find
from autograder.core.layout import ROOT
from autograder.core.preload import preload
from autograder.core.sampler import Sampler
from autograder.judge.observed import Observed, as_played, number_of
from autograder.judge.play_forms import Request
from autograder.judge.referee import observed_here
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.forms import forms, lost_by_itself
from autograder.misconceptions.match import Played, named
from autograder.notebooks.forked import forked
from autograder.notebooks.in_process import run_cell, run_notebook
from autograder.protocol import wire
from autograder.runner.scenario_runner import run_case
from autograder.selfcheck.chapters import Chapter

CPU_SECONDS = 2
"""For a form, which may loop for ever; and for all that are asked together, after which no more is begun."""
_OVER = "over"
_Facts = dict[str, list[str]]
_Run = list[tuple[int, Case]]
"""Cases with their numbers, each of which follows the one before."""


@dataclass(frozen=True)
class Player:
    """Plays the forms of one exercise. ``namespace``: what its notebook defines above the function."""

    exercise: Exercise
    namespace: dict[str, Any]
    forms: list[Attempt]

    @classmethod
    def of(cls, name: str) -> "Player":
        """In a process of its own: the notebook is run here."""
        chapter, _, function = name.partition(".")
        read = Chapter(ROOT / "exercises" / chapter)
        namespace, _ = run_notebook(read.notebook, {}, function)
        return cls(find(name), namespace, forms(read.folder, function))

    def names(self, request: Request) -> dict[str, str]:
        """The key of a misconception for each criterion that one explains. Raises TimeoutError: of half the forms nothing is certain."""
        mine, runs = as_played(request.facts), self._drawn(request)
        asked = [form for form in self.forms if form.name in request.forms]
        found: list[tuple[str, Played]] = []
        for some in self._in_turn(asked, mine.lost):
            if not any(its.facts == mine.facts for _, its in found):
                found += self._agreeing(some, *runs, request.facts)
        return named(mine, found)

    def _in_turn(self, asked: list[Attempt], lost: frozenset[str]) -> tuple[list[Attempt], list[Attempt]]:
        """Those that may do throughout what lost these; the others, which nobody needs where one of the former does."""
        may = [lost_by_itself(self.exercise, form) <= lost <= {*form.loses} for form in asked]
        return [*compress(asked, may)], [*compress(asked, map(not_, may))]

    def _agreeing(
        self, asked: list[Attempt], lost: list[_Run], earned: list[_Run], mine: _Facts
    ) -> list[tuple[str, Played]]:
        """The keys of those that agree with ``mine`` in the whole draw, with what each gave."""
        screened = [form for form, _ in self._played(asked, lost, mine)]
        return [(form.says, as_played(its)) for form, its in self._alone(screened, [*lost, *earned], mine)]

    def _drawn(self, request: Request) -> tuple[list[_Run], list[_Run]]:
        """The cases with their numbers: those that were lost, in which nearly all forms differ at once, and the others.

        Cases of which one follows the other go together. Those with small inputs come first, for they take least.
        """
        lost = {number_of(fact) for facts in request.facts.values() for fact in facts}
        runs = sorted(_runs(enumerate(self.exercise.cases(Sampler(request.seed)), 1)), key=_bytes)
        has_lost = [not lost.isdisjoint(_numbers(run)) for run in runs]
        return [*compress(runs, has_lost)], [*compress(runs, map(not_, has_lost))]

    def _alone(self, asked: list[Attempt], runs: list[_Run], mine: _Facts) -> Iterator[tuple[Attempt, _Facts]]:
        """As :meth:`_played`, each in a process of its own: what one leaves behind is not there for the next.

        Where one agrees, no other is asked that says the same of the same criteria.
        """
        agreed = set[tuple]()
        for form in asked:
            if (same := (form.says, form.loses)) not in agreed:
                found = self._played([form], runs, mine)
                agreed |= {same} if found else set()
                yield from found

    def _played(self, asked: list[Attempt], runs: list[_Run], mine: _Facts) -> list[tuple[Attempt, _Facts]]:
        """Those that agree with ``mine`` in all of the cases, with their facts: one after the other in a fork, and in
        the next where one of them has ended it."""
        found, left = [], list(asked)
        while left:
            facts = _told(self._tell, left, runs, mine)
            if _OVER in facts:
                raise TimeoutError
            found += [(form, its) for form, its in zip(left, facts, strict=False) if its is not None]
            left = left[len(facts) + 1 :]
        return found

    def _tell(self, its: Connection, asked: list[Attempt], runs: list[_Run], mine: _Facts) -> None:
        for form in asked:
            if _used() > CPU_SECONDS:
                return its.send(_OVER)
            _allow(CPU_SECONDS)
            facts = None
            with suppress(Exception, SystemExit):
                facts = self.facts_of(form, runs, mine)
            its.send(facts)

    def facts_of(self, form: Attempt, runs: list[_Run], mine: _Facts) -> _Facts | None:
        """None where the form differs from ``mine`` in one of the cases, and so explains nothing.

        First come those in which ``mine`` lost what the form is to lose: there most differ.
        """
        namespace = dict(self.namespace)
        if run_cell(form.function, form.source, namespace):
            return None
        own = lost_by_itself(self.exercise, form)
        run = lambda inputs: run_case(self.exercise.name, namespace, inputs)
        first = {number_of(fact) for criterion in own for fact in mine.get(criterion, ())}
        ordered = sorted(runs, key=lambda run: first.isdisjoint(_numbers(run)))
        observed = observed_here(self.exercise, run, chain(*ordered), lambda so_far: not agrees(so_far, mine, own))
        return _in_order(observed.facts) if agrees(observed, mine, own) else None


def agrees(its: Observed, mine: _Facts, own: set[str]) -> bool:
    """Whether a form lost nothing otherwise than ``mine``, and of ``own``, what it is to lose, all that ``mine`` lost, in the cases so far."""
    facts = its.facts
    if not its.whole or any({*found} - {*mine.get(criterion, ())} for criterion, found in facts.items()):
        return False
    lost = lambda criterion: {fact for fact in mine.get(criterion, ()) if number_of(fact) in its.over}
    return all(lost(criterion) == {*facts.get(criterion, ())} for criterion in own)


def _runs(cases: Iterable[tuple[int, Case]]) -> list[_Run]:
    """Each case with those that follow it."""
    found: list[_Run] = []
    for number, case in cases:
        if not case.follows:
            found.append([])
        found[-1].append((number, case))
    return found


def _numbers(run: _Run) -> set[int]:
    return {number for number, _ in run}


def _bytes(run: _Run) -> int:
    return sum(len(wire.encode(case.inputs)) for _, case in run)


def _in_order(facts: _Facts) -> _Facts:
    return {criterion: sorted(its, key=number_of) for criterion, its in facts.items()}


def _told(tell: Callable, *arguments: Any) -> list:
    """What a fork sends until it ends."""
    line, process = forked(tell, *arguments)
    found = []
    with line:
        try:
            while True:
                found.append(line.recv())
        except EOFError:
            process.join()
            return found


def _allow(seconds: float) -> None:
    """Of processor time from now on; the process ends where it takes more."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(_used() + seconds) + 1, resource.RLIM_INFINITY))


def _used() -> float:
    """Seconds of processor time of this process, whose clocks a virtual card may have moved."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _serve() -> None:
    """What a form prints goes where nobody reads it."""
    torch.set_num_threads(1)
    lines: dict[str, Connection] = {}
    with open(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        for line in sys.stdin.buffer:
            answers.write(msgspec.json.encode(answer(msgspec.json.decode(line, type=Request), lines)) + b"\n")
            answers.flush()
    os._exit(0)  # what was forked ends when its line does


def answer(request: Request, lines: dict[str, Connection]) -> dict[str, str]:
    """Asks the exercise's process; nothing where that ends. ``lines``: to those that were forked, by exercise."""
    if request.exercise not in lines:
        preload(request.exercise.partition(".")[0])
        lines[request.exercise] = _player_of(request.exercise, [*lines.values()])
    try:
        lines[request.exercise].send(request)
        return lines[request.exercise].recv()
    except (OSError, EOFError):
        lines.pop(request.exercise).close()
        return {}


def _player_of(exercise: str, others: list[Connection]) -> Connection:
    fork = multiprocessing.get_context("fork")
    mine, its = fork.Pipe()
    fork.Process(target=_answer_all, args=(its, exercise, [mine, *others])).start()
    its.close()
    return mine


def _answer_all(line: Connection, exercise: str, others: list[Connection]) -> None:
    for other in others:
        other.close()
    player = Player.of(exercise)
    with suppress(EOFError):
        while True:
            line.send(_in_time(player, line.recv()))


def _in_time(player: Player, request: Request) -> dict[str, str]:
    try:
        return player.names(request)
    except TimeoutError:
        return {}


if __name__ == "__main__":
    _serve()
