"""A session: one exercise of one submission, case by case. What judges its evidence may be another process."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from autograder.core.exercise import Failure, NotGradable, Outline
from autograder.core.verdict import Scorecard, Verdict
from autograder.judge.event_log import EventLog
from autograder.misconceptions.sentences import Misconception

if TYPE_CHECKING:
    from gpulab.collectives.brokers import RankSockets


@dataclass(frozen=True)
class OpenCase:
    """A case that waits for evidence: the criteria that it decides, its encoded inputs, its number of ranks (0: not distributed)."""

    criteria: list[str]
    inputs: bytes
    ranks: int = 0


@dataclass
class CaseResult:
    """The outcome of one case.

    ``incidents``: sentences about evidence that was tampered with; ``broken``: about a judge or a ``run.py`` that
    failed, with file and line; ``tracebacks``: those of such judges.
    """

    lost: list[Failure] = field(default_factory=list)
    not_gradable: list[NotGradable] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Explanation:
    """Why criteria were lost: ``named``, the misconception of each where that is certain.

    ``facts``: where known wrong functions would have to be played to tell, what this function's own are; see
    :class:`autograder.judge.observed.Observed`.
    """

    named: dict[str, Misconception] = field(default_factory=dict)
    facts: dict[str, list[str]] = field(default_factory=dict)


class JudgingStopped(Exception):
    """The hidden tests cannot go on: the reason, and a traceback where the exercise's own code failed."""

    def __init__(self, why: str, traceback: str = "") -> None:
        super().__init__(why)
        self.traceback = traceback


class CaseJudge(Protocol):
    """Draws the cases of one exercise and judges their evidence, in the same order. Both may raise JudgingStopped.

    The next case may be drawn before the evidence of the last one is judged. ``sockets``: those of the collective broker of
    the case drawn last; None where it is not distributed.
    """

    sockets: "RankSockets | None"

    def next_case(self) -> OpenCase | None: ...

    def judge(self, data: bytes, events: list[bytes]) -> CaseResult: ...

    def explain(self, lost: list[str]) -> Explanation:
        """Once all is judged: why these criteria were not earned."""


@dataclass(frozen=True)
class _Given:
    """What came back of a case, and the events that were logged meanwhile."""

    case: OpenCase
    data: bytes
    events: list[bytes]


class Session:
    """Grades one exercise of one submission, case by case, in order.

    ``next_case()`` gives the encoded inputs, None when there are no more; ``record_event(event)`` logs an event of
    the running case; ``take(evidence)`` judges what came back. ``give(evidence)`` puts that off until ``judge_given()``, so
    that the kernel can go on meanwhile.
    ``stopped``: no answer came of the judge, which was beyond its bounds, or of its cases.
    """

    def __init__(self, exercise: Outline, judge: CaseJudge) -> None:
        self.exercise = exercise
        self._judge = judge
        self._scorecard = Scorecard(exercise)
        self._open: OpenCase | None = None
        self._given: _Given | None = None
        self._log = EventLog()
        self.finished = False
        self.stopped = False
        self.incidents: list[str] = []
        self.broken: list[str] = []
        self.tracebacks: list[str] = []

    def next_case(self) -> bytes | None:
        """The next case's inputs. Raises RuntimeError while one is still open."""
        if self._open is not None:
            raise RuntimeError("the open case has no evidence yet")
        if self.finished:
            return None
        try:
            self._open = self._judge.next_case()
        except JudgingStopped as why:
            self.judge_given()
            if not self.stopped:
                self._stop(why)
        if self._open is None:
            self.judge_given()
            self.finished = True
            return None
        self._log = EventLog()
        return self._open.inputs

    @property
    def sockets(self) -> "RankSockets | None":
        """Those of the open case's collective broker; None where the case is not distributed."""
        return self._judge.sockets if self._open is not None and self._open.ranks else None

    def record_event(self, event: bytes) -> None:
        self._log.add(event)

    def take(self, data: bytes) -> None:
        """Judge the evidence of the open case. Malformed evidence loses the criteria of the case."""
        self.give(data)
        self.judge_given()

    def give(self, data: bytes) -> None:
        """The evidence of the open case, to be judged later. What was given before it is judged now."""
        if self._open is None:
            raise RuntimeError("no case is open")
        self.judge_given()
        if self._open is not None:  # or the judge was stopped
            self._given, self._open = _Given(self._open, data, self._log.events), None

    def judge_given(self) -> None:
        given, self._given = self._given, None
        if given is None:
            return
        try:
            result = self._judge.judge(given.data, given.events)
        except JudgingStopped as why:
            return self._stop(why)
        for finding in (*result.lost, *result.not_gradable):
            self._scorecard.found(finding)
        self.incidents += result.incidents
        self.broken += [sentence for sentence in result.broken if sentence not in self.broken]
        self.tracebacks += result.tracebacks
        for criterion in given.case.criteria:
            self._scorecard.judged(criterion)

    @property
    def lost_something(self) -> bool:
        return self._scorecard.lost_something

    @property
    def lost(self) -> set[str]:
        """The criteria that cannot be earned any more."""
        return self._scorecard.lost

    @property
    def nothing_left(self) -> bool:
        return self._scorecard.nothing_left

    def abandon(self, message: str) -> None:
        """Stop here: every criterion that is not lost yet is lost with this message."""
        self.judge_given()
        self._open = None
        self._scorecard.lose_all(message)

    def verdict(self) -> Verdict:
        if not self.finished:
            self.abandon("The hidden tests of this exercise did not run to their end.")
        return self._scorecard.verdict()

    def explanation(self) -> Explanation:
        """Why points were lost. After the last case."""
        return self._judge.explain(self._scorecard.verdict().lost)

    def _stop(self, why: JudgingStopped) -> None:
        self.finished = self.stopped = True
        self.broken.append(f"the judge of {self.exercise.name} was stopped: {why}")
        self.tracebacks += [why.traceback] if why.traceback else []
        self.abandon(f"What the function gave could not be judged: {why}.")


def background_work_problem(kind: str) -> str:
    """``kind``: ``thread``, ``process``, ``subinterpreter`` or ``answer``."""
    if kind == "answer":
        return "A function of gpulab answered in this one's place: the exercise asks for an answer of your own."
    return f"A {kind} of the notebook worked in the background, where nothing is measured: use the calling thread only."


OR_THE_TEST = ", or the hidden test is wrong."


def without_doubt(verdict: Verdict) -> Verdict:
    """With sentences for a learner whose function alone is the cause: with the course's own the same hidden test went well."""
    function = verdict.exercise.partition(".")[2]
    surely = f": the course's own `{function}` passes this very test."
    lines = tuple(replace(line, message=line.message.replace(OR_THE_TEST, surely)) for line in verdict.lines)
    return replace(verdict, lines=lines)
