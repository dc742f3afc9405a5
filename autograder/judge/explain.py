"""Why criteria were lost, told once the hidden tests are over: the forms of misconceptions are asked the questions of this very draw."""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from autograder.core.exercise import Case, Exercise, Failure
from autograder.judge.facts import MOST_BYTES, Fact
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.forms import as_function, chapter_of, forms_to_ask, lost_by_itself
from autograder.misconceptions.match import RIGHT, Played, named
from autograder.misconceptions.sentences import Misconception, misconceptions_of
from autograder.protocol import wire
from autograder.protocol.asked import asked
from autograder.protocol.errors import classes_of
from autograder.protocol.plain import read, written

SECONDS_A_FORM = 0.5
"""Of processor time: a wrong function may loop for ever."""


class ToExplain:
    """Keeps what came back of an exercise's cases until they are over. ``cases``: how many were judged."""

    def __init__(self, exercise: Exercise) -> None:
        self._exercise = exercise
        self._given: list[tuple[Case, bytes]] = []
        self.cases = 0

    def add(self, case: Case, data: bytes) -> None:
        """A case whose answers are judged by the exercise's own judge."""
        if self._exercise.facts and sum(len(one) for _, one in self._given) + len(data) <= MOST_BYTES:
            self._given.append((case, data))

    def explained(self, lost: Collection[str]) -> dict[str, Misconception]:
        """See :func:`explained`; nothing where a case was left out, or where the explanation itself fails: it is no grade."""
        if not self._given or len(self._given) < self.cases:
            return {}
        try:
            return explained(self._exercise, [(case, wire.decode(data)) for case, data in self._given], lost)
        except Exception:
            return {}


@dataclass(frozen=True)
class _Answered:
    """One case, what came back of it, and the facts of that."""

    case: Case
    evidence: dict
    facts: list[Fact]

    @property
    def criterion(self) -> str:
        return self.case.criteria[0]

    def alone(self, at: int) -> Case:
        """The case with one of its questions."""
        one = slice(at, at + 1)
        calls = written(read(self.case.inputs["calls"])[one])
        return replace(self.case, inputs={**self.case.inputs, "calls": calls}, questions=self.case.questions[one])


def explained(exercise: Exercise, draw: list[tuple[Case, dict]], lost: Collection[str]) -> dict[str, Misconception]:
    """For each criterion that a misconception explains, that one; all that the function's answers lost, or nothing.

    ``draw``: each case with what came back of it. ``lost``: the criteria that were not earned, those that require a lost one
    among them. Only forms that lose nothing else are asked.
    """
    if any("answers" not in evidence or evidence.get("background") for _, evidence in draw):
        return {}
    given = [_Answered(case, evidence, list(exercise.facts(case, evidence))) for case, evidence in draw]
    mine = _played(exercise, given)
    asked = forms_to_ask(exercise, lost, mine.lost)
    its = [(one.says, _form_played(exercise, given, one)) for one in asked]
    keys = named(mine, [(key, form) for key, form in its if form is not None])
    said = misconceptions_of(exercise.name) if keys else {}
    return {criterion: said[key] for criterion, key in keys.items()}


def _played(exercise: Exercise, given: list[_Answered]) -> Played:
    """As facts: of what is earned that it is right, of what is lost what was wrong."""
    findings = (found for one in given for found in exercise.judge(one.case, one.evidence))
    lost = {found.criterion for found in findings if isinstance(found, Failure)}
    facts: dict[str, list[Fact]] = defaultdict(list)
    for one in given:
        facts[one.criterion] += one.facts
    return Played({name: _as_judged(its, name in lost) for name, its in facts.items()}, frozenset(lost))


def _as_judged(facts: list[Fact], lost: bool) -> tuple:
    if not lost:
        return (RIGHT,) * len(facts)
    seen = tuple(fact.seen for fact in facts)
    # A judge may compare answers with each other: then each of them is right by itself.
    return seen if {*seen} != {RIGHT} else tuple(fact.given for fact in facts)


def _form_played(exercise: Exercise, mine: list[_Answered], form: Attempt) -> Played | None:
    """As :func:`_played`; None where it cannot explain ``mine``, takes too long, or fails at what this draw asks.

    It cannot where it gives something else that is wrong: nearly all are settled by the first question that ``mine`` loses.
    """
    itself, found = lost_by_itself(exercise, form), {}
    order = sorted(mine, key=lambda one: one.criterion not in itself)
    try:
        with _at_most(SECONDS_A_FORM), _silent():
            function = as_function(form, chapter_of(exercise), _libraries(mine[0].case))
            for own in order:
                if own.criterion in itself and not _answers_alike(exercise, function, own):
                    return None
                evidence = _evidence(function, own.case)
                facts = list(map(_shared, exercise.facts(own.case, evidence), own.facts))
                if any(fact is not one and fact.seen != RIGHT for fact, one in zip(facts, own.facts, strict=True)):
                    return None
                found[id(own)] = _Answered(own.case, evidence, facts)
            return _played(exercise, [found[id(own)] for own in mine])
    except (Exception, SystemExit):
        return None


def _answers_alike(exercise: Exercise, function: Callable, own: _Answered) -> bool:
    """Whether a function gives the same in the first question of a case that was answered wrongly."""
    at = next((at for at, fact in enumerate(own.facts) if fact.seen != RIGHT), None)
    if at is None:
        return True
    case = own.alone(at)
    (fact,) = exercise.facts(case, _evidence(function, case))
    return fact.given == own.facts[at].given


def _shared(its: Fact, mine: Fact) -> Fact:
    """The same answer is the same fact, and looked at once."""
    return mine if its.given == mine.given else its


def _evidence(function: Callable, case: Case) -> dict[str, Any]:
    """As it would have come from a learner's process."""
    return wire.decode(wire.encode(asked(function, case.inputs["calls"], classes_of)))


def _libraries(case: Case) -> Collection[str] | None:
    """Those that its function may use; None: all."""
    return None if case.inputs["in_kernel"] else case.inputs["libraries"]


class _TooLong(BaseException):
    """Not an Exception: a form may catch those."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raises RuntimeError in the block's stead after so much processor time."""

    def stop(number: int, frame: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.05)  # again, where a form caught it
    try:
        yield
    except _TooLong:
        raise RuntimeError("a form took too long") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What a form prints is nobody's."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
