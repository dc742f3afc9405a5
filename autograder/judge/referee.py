"""The referee, which grades one exercise: draws cases, takes what the kernel returned of each, scores it. It runs no learner code."""

import os
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autograder.core.exercise import Case, Exercise, Failure, NotGradable, find
from autograder.core.layout import ROOT
from autograder.core.printable import printable
from autograder.core.sampler import Sampler
from autograder.core.settings import fresh_settings
from autograder.core.verdict import Verdict
from autograder.judge.consistency import inconsistency
from autograder.judge.event_log import disagreement, input_addresses, notes
from autograder.judge.expect import is_written, raised_problem
from autograder.judge.explain import ToExplain
from autograder.judge.observed import Observed
from autograder.judge.session import (
    OR_THE_TEST,
    CaseResult,
    Explanation,
    JudgingStopped,
    OpenCase,
    Session,
    background_work_problem,
)
from autograder.misconceptions.forms import forms_to_ask
from autograder.protocol import wire
from autograder.protocol.event_sink import sending_events
from autograder.protocol.rank_sockets import use_sockets

if TYPE_CHECKING:
    from autograder.judge.collective_broker import CollectiveBroker
    from gpulab.collectives.brokers import RankSockets

MAX_TRACEBACK_CHARACTERS = 4000
_EXERCISES = f"{ROOT}{os.sep}exercises{os.sep}"


class InProcessJudge:
    """Judges in this process, without limits of time and memory."""

    def __init__(self, exercise: Exercise, sampler: Sampler, observed: Observed | None = None) -> None:
        self.exercise = exercise
        self._cases = exercise.cases(sampler)
        self._drawn: deque[tuple[Case, CollectiveBroker | None]] = deque()
        """Cases that are not judged yet, each with its broker."""
        self.sockets: RankSockets | None = None
        self._to_explain = ToExplain(exercise)
        self.observed = Observed() if observed is None else observed

    def next_case(self) -> OpenCase | None:
        self.sockets = None
        try:
            case = next(self._cases, None)
        except Exception as error:
            raise JudgingStopped(f"its cases failed at {_place(error)}", _traceback()) from error
        if case is None:
            return None
        broker = _broker_for(case)
        self._drawn.append((case, broker))
        self.sockets = broker and broker.sockets
        return OpenCase(list(case.criteria), wire.encode(case.inputs), case.ranks)

    def judge(self, data: bytes, events: list[bytes]) -> CaseResult:
        case, broker = self._drawn.popleft()
        self._to_explain.cases += 1
        traffic = broker.traffic() if broker is not None else None
        evidence = self._to_be_judged(case, data, events)
        if isinstance(evidence, CaseResult):
            self.observed.add(data, evidence, stopped=True)
            return evidence
        # The referee's own facts replace what the evidence, which comes from the learner's process, says of them.
        addresses = input_addresses(events) if "seen" in evidence else []
        facts = {"input_addresses": addresses, "traffic": traffic, "notes": notes(events)}
        self._to_explain.add(case, data)
        result = self._judged(case, evidence | facts)
        self.observed.add(data, result)
        return result

    def explain(self, lost: Collection[str]) -> Explanation:
        """Where a ``run.py`` calls the function its facts, if forms of it could explain all that was lost."""
        if self.exercise.facts:
            return Explanation(self._to_explain.explained(lost))
        certain = self.observed.whole and forms_to_ask(self.exercise, lost, self.observed.lost)
        return Explanation(facts=self.observed.facts) if certain else Explanation()

    def _to_be_judged(self, case: Case, data: bytes, events: list[bytes]) -> dict | CaseResult:
        """The evidence, or what is lost where there is nothing in it that the exercise's own judge could look at."""
        try:
            evidence = _evidence(data)
        except wire.WireError as error:
            return _all_lost(
                case, _NOT_ASKED_FOR.format("WireError"), f"evidence that cannot be read: {str(error):.200}"
            )
        expected = case.raises and "unsent" not in evidence
        if "raised" in evidence and not (expected and is_written(evidence["raised"])):
            return self._raised(case, evidence)
        if problem := self._background_problem(evidence):
            return _all_lost(case, problem)
        if problem := _untrue(evidence, events):
            message = (
                f"The record of what ran contradicts itself ({problem}): was gpulab or PyTorch changed in the notebook?"
            )
            return _all_lost(case, message, f"an observation that contradicts itself: {problem}")
        return evidence

    def _judged(self, case: Case, evidence: dict) -> CaseResult:
        try:
            found = list(self.exercise.judge(case, evidence))
        except Exception as error:
            # Forged evidence, or a defect of the judge: an author must see which, so both are logged.
            result = _all_lost(case, _NOT_ASKED_FOR.format(type(error).__name__))
            result.broken.append(f"the judge of {self.exercise.name} failed at {_place(error)}")
            result.tracebacks.append(_traceback())
            return result
        lost = [finding for finding in found if isinstance(finding, Failure)]
        return CaseResult(lost, [finding for finding in found if isinstance(finding, NotGradable)])

    def _raised(self, case: Case, evidence: dict) -> CaseResult:
        problem = raised_problem(evidence["raised"])
        if not is_written(evidence["raised"]):
            self.observed.whole = False  # what nobody wrote shows no misconception, and no form is to be played
        if not isinstance(place := evidence.get("scenario_fault"), str):
            return _all_lost(case, problem)
        # What the kernel says of its scenario is a hint for the author, and may be forged.
        named = (
            problem.removeprefix("The function raised ") if is_written(evidence["raised"]) else "NotImplementedError"
        )
        what = printable(named)
        result = _all_lost(case, _SCENARIO_FAULT.format(what))
        result.broken.append(f"the scenario of {self.exercise.name} failed at {printable(place)} ({what:.100})")
        return result

    def _background_problem(self, evidence: dict) -> str | None:
        """The sentence about background work in the evidence, or None."""
        if self.exercise.alone and (background := evidence.get("background")):
            return background_work_problem(background[0])
        return None


def _broker_for(case: Case) -> "CollectiveBroker | None":
    if not case.ranks:
        return None
    from autograder.judge.collective_broker import CollectiveBroker  # no judge without ranks pays for its import

    pieces = [own if isinstance(own, list) else [own] for own in case.per_rank_inputs]
    return CollectiveBroker(case.ranks, case.network, tuple(tuple(map(wire.encode, own)) for own in pieces))


_NOT_ASKED_FOR = f"What came back could not be judged ({{}}): it is not what this exercise asks for{OR_THE_TEST}"
_SCENARIO_FAULT = (
    "The hidden test stopped at no line of the notebook ({}): the function gave what the test cannot take" + OR_THE_TEST
)


def _place(error: Exception) -> str:
    """Where ``error`` was raised (the innermost frame in ``exercises/``, else of all), and what it is."""
    frames = traceback.extract_tb(error.__traceback__)
    at = ([frame for frame in frames if frame.filename.startswith(_EXERCISES)] or frames)[-1]
    file = at.filename.removeprefix(f"{ROOT}{os.sep}")
    return f"{file}:{at.lineno} ({type(error).__name__}: {str(error):.100})"


def _traceback() -> str:
    return traceback.format_exc()[-MAX_TRACEBACK_CHARACTERS:]


def _evidence(data: bytes) -> dict:
    evidence = wire.decode(data)
    if not isinstance(evidence, dict):
        raise wire.WireError("evidence is a dictionary")
    if not isinstance(evidence.get("background", []), list):
        raise wire.WireError("background is a list")
    return evidence


def _all_lost(case: Case, message: str, *incidents: str) -> CaseResult:
    return CaseResult([Failure(criterion, message) for criterion in case.criteria], incidents=list(incidents))


def _untrue(evidence: dict, events: list[bytes]) -> str | None:
    """Why the observation in the evidence, or what was noted meanwhile, cannot be a true record; or None."""
    try:
        if "seen" in evidence:
            return inconsistency(evidence["seen"]) or disagreement(events, evidence["seen"])
        return notes(events) and None
    except Exception as error:
        return f"it is no observation ({type(error).__name__})"


def session_here(exercise: Exercise, sampler: Sampler | None = None) -> Session:
    """A session whose judge works in this process."""
    return Session(exercise, InProcessJudge(exercise, sampler or Sampler()))


def judge_here(name: str, run_case, sampler: Sampler | None = None) -> Verdict:
    """The verdict on one exercise, with everything in this process (see :func:`play_here`)."""
    return play_here(name, run_case, sampler).verdict()


def score_here(name: str, run_case, sampler: Sampler | None = None) -> float:
    """The score of :func:`judge_here`. Cases are skipped once nothing can be earned any more."""
    session = session_here(find(name), sampler)
    _play(session, run_case, lambda: session.nothing_left)
    return session.verdict().score


def play_here(
    name: str,
    run_case,
    sampler: Sampler | None = None,
    to_the_first: bool = False,
    until: Collection[str] = (),
    drawn: Iterable[Case] | None = None,
) -> Session:
    """Cases, scenario and judge in one process: for authors, without any protection.

    ``run_case(inputs: bytes) -> bytes`` runs the scenario. Cases are drawn and judged under PyTorch's default
    settings, whatever the notebook has set. ``to_the_first``: end with the first case that loses something.
    ``until``: end once all these criteria are lost, and skip cases that decide none of those left. ``drawn``: the cases, where
    they are kept; else they are drawn here.
    """
    exercise = find(name)
    if drawn is not None:
        exercise = replace(exercise, cases=lambda sampler: iter(drawn))
    whole = exercise.cases
    if until:
        exercise = replace(
            exercise,
            cases=lambda sampler: (case for case in whole(sampler) if {*case.criteria} & {*until} - session.lost),
        )
    session = session_here(exercise, sampler)
    _play(session, run_case, lambda: to_the_first and session.lost_something or until and session.lost >= set(until))
    return session


def observed_here(
    exercise: Exercise,
    run_case,
    numbered: Iterable[tuple[int, Case]],
    enough: Callable[[Observed], bool] = lambda _: False,
) -> Observed:
    """Facts of these cases of a draw, each with its number in it, played as in :func:`play_here` until there is ``enough``."""
    numbers, cases = zip(*numbered, strict=True)
    observed = Observed(numbers)
    judge = InProcessJudge(replace(exercise, cases=lambda sampler: iter(cases)), Sampler(), observed)
    _play(Session(exercise, judge), run_case, lambda: enough(observed))
    return observed


def _play(session: Session, run_case, enough: Callable[[], bool]) -> None:
    while not enough() and (inputs := _fresh(session.next_case)) is not None:
        with sending_events(session.record_event), use_sockets(session.sockets):
            evidence = run_case(inputs)
        _fresh(session.take, evidence)


def _fresh(do: Callable, *arguments: Any) -> Any:
    with fresh_settings():
        return do(*arguments)
