"""Plays an exercise's hidden tests with forms of misconceptions, and says which explain what a function lost in the same tests.

python -m autograder.selfcheck.own_forms        reads a request a line, writes an answer a line
"""

import os
import resource
import sys
from collections.abc import Iterator
from functools import cache

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
from autograder.notebooks.forked import forked, heard, in_a_fork
from autograder.notebooks.in_process import run_cell, run_notebook
from autograder.runner.scenario_runner import run_case
from autograder.selfcheck.chapters import Chapter

CPU_SECONDS = 5
"""For a form, which may loop for ever."""
_Facts = dict[str, list[str]]
_Numbered = list[tuple[int, Case]]


def names(request: Request) -> dict[str, str]:
    """The key of a misconception for each criterion that one explains. In a process of its own: the notebook is run here."""
    chapter, function = _chapter(request.exercise), request.exercise.partition(".")[2]
    exercise, cases = find(request.exercise), _drawn(request)
    namespace, _ = run_notebook(chapter.notebook, {}, function)
    asked = [form for form in forms(chapter.folder, function) if form.name in request.forms]
    own = [(form.says, _in_a_fork(exercise, namespace, form, cases, request.facts)) for form in asked]
    return named(as_played(request.facts), [(key, its) for key, its in own if its is not None])


@cache
def _chapter(exercise: str) -> Chapter:
    return Chapter(ROOT / "exercises" / exercise.partition(".")[0])


def _drawn(request: Request) -> _Numbered:
    """The cases with their numbers, those that were lost first: nearly all forms differ in one of them."""
    lost = {number_of(fact) for facts in request.facts.values() for fact in facts}
    cases = enumerate(find(request.exercise).cases(Sampler(request.seed)), 1)
    return sorted(cases, key=lambda numbered: numbered[0] not in lost)


def _in_a_fork(*of: object) -> Played | None:
    """What one form leaves in its process is gone before the next."""
    facts = heard(*forked(_played_alone, *of), None)
    return None if facts is None else as_played(facts)


def _played_alone(its, *of) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        its.send(played(*of))
    except (Exception, SystemExit):
        its.send(None)


def played(exercise: Exercise, namespace: dict, form: Attempt, cases: _Numbered, mine: _Facts) -> _Facts | None:
    """The facts of a form; None where it differs in one case at least from ``mine``, which it then cannot explain."""
    if run_cell(form.function, form.source, namespace):
        return None
    own = lost_by_itself(exercise, form)
    run = lambda inputs: run_case(exercise.name, namespace, inputs)
    observed = observed_here(exercise, run, cases, lambda so_far: not _agrees(so_far, mine, own))
    return _in_order(observed.facts) if _agrees(observed, mine, own) else None


def _agrees(its: Observed, mine: _Facts, own: set[str]) -> bool:
    """Whether a form lost nothing otherwise than ``mine``, nor kept of what it is to lose what ``mine`` lost, in the cases so far."""
    facts = its.facts
    if not its.whole or any({*found} - {*mine.get(criterion, ())} for criterion, found in facts.items()):
        return False
    lost = lambda criterion: {fact for fact in mine.get(criterion, ()) if number_of(fact) in its.over}
    return all(lost(criterion) == {*facts.get(criterion, ())} for criterion in own)


def _in_order(facts: _Facts) -> _Facts:
    return {criterion: sorted(its, key=number_of) for criterion, its in facts.items()}


def _serve() -> None:
    """What a form prints goes where nobody reads it."""
    torch.set_num_threads(1)
    with open(os.dup(1), "wb") as answers, open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        for line in sys.stdin.buffer:
            answers.write(msgspec.json.encode(_answer(msgspec.json.decode(line, type=Request))) + b"\n")
            answers.flush()


def _answer(request: Request) -> dict[str, str]:
    """What is imported and read here is there for the next request too; nothing that is played is."""
    chapter = _chapter(request.exercise)
    find(request.exercise), chapter.notebook, preload(chapter.name)
    try:
        return dict(in_a_fork(_pairs, request))
    except RuntimeError:
        return {}


def _pairs(request: Request) -> Iterator[tuple[str, str]]:
    yield from names(request).items()


if __name__ == "__main__":
    _serve()
