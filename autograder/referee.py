"""The referee: draws cases, takes evidence, judges. It imports no learner code."""

from autograder import wire
from autograder.draw import Draw
from autograder.exercise import Case, Exercise, Lost, find
from autograder.plausible import contradiction
from autograder.verdict import Tally, Verdict


class Session:
    """One exercise of one submission, case by case, in order.

    ``next_case()`` gives the inputs as bytes, None when there are no more; ``take(evidence)``
    judges what came back for that case. ``incidents``: sentences about evidence that no
    honest notebook gives.
    """

    def __init__(self, exercise: Exercise, draw: Draw) -> None:
        self.exercise = exercise
        self._tally = Tally(exercise)
        self._cases = exercise.cases(draw)
        self._open: Case | None = None
        self.finished = False
        self.incidents: list[str] = []

    def next_case(self) -> bytes | None:
        """The next case's inputs. Raises RuntimeError while one is still open."""
        if self._open is not None:
            raise RuntimeError("the open case has no evidence yet")
        self._open = next(self._cases, None)
        if self._open is None:
            self.finished = True
            return None
        return wire.encode(self._open.inputs)

    def take(self, data: bytes) -> None:
        """Judge the evidence of the open case. Malformed evidence loses what the case is about."""
        if self._open is None:
            raise RuntimeError("no case is open")
        case, self._open = self._open, None
        for finding in self._findings(case, data):
            self._tally.found(finding)
        for criterion in case.about:
            self._tally.judged(criterion)

    def abandon(self, message: str) -> None:
        """The cases stop here: every criterion is lost unless something worse was found."""
        self._open = None
        self._tally.lose_all(message)

    def verdict(self) -> Verdict:
        if not self.finished:
            self.abandon("The hidden tests of this exercise did not run to their end.")
        return self._tally.verdict()

    def _findings(self, case: Case, data: bytes) -> list:
        try:
            evidence = wire.decode(data)
            if not isinstance(evidence, dict):
                raise wire.WireError("evidence is a dictionary")
            if "raised" in evidence:
                message = _raised(evidence["raised"])
                return [Lost(criterion, message) for criterion in case.about]
            if problem := self._out_of_sight(evidence) or self._contradiction(evidence):
                return [Lost(criterion, problem) for criterion in case.about]
            return list(self.exercise.judge(case, evidence))
        except Exception as error:  # whatever forged evidence makes a judge stumble over
            message = f"The evidence was not what this exercise asks for ({type(error).__name__})."
            return [Lost(criterion, message) for criterion in case.about]


    def _out_of_sight(self, evidence: dict) -> str | None:
        """Why work was done where no instrument looks, or None."""
        if self.exercise.alone and (elsewhere := evidence.get("elsewhere")):
            return f"A {elsewhere[0]} of the notebook's own was at work, where no instrument looks: use the calling thread alone."
        return None

    def _contradiction(self, evidence: dict) -> str | None:
        """Why the observation in the evidence cannot be a true record, or None."""
        if "seen" not in evidence or (problem := contradiction(evidence["seen"])) is None:
            return None
        self.incidents.append(f"an observation that contradicts itself: {problem}")
        return f"The record of what ran contradicts itself ({problem}): was gpulab or PyTorch changed in the notebook?"


def _raised(raised: object) -> str:
    if not isinstance(raised, dict):
        return "The function raised an exception."
    kind, message, line = (str(raised.get(key, ""))[:300] for key in ("type", "message", "line"))
    if kind == "NotImplementedError":
        return "The function is not written yet: it raised NotImplementedError."
    if kind == "NotDefined":
        return message
    where = f" at `{line}`" if line else ""
    return f"The function raised {kind}{where}: {message}"


def judge_here(name: str, sit, draw: Draw | None = None) -> Verdict:
    """Cases, scenario and judge in one process: for authors, with no defence at all.

    ``sit(inputs: bytes) -> bytes`` runs the scenario.
    """
    session = Session(find(name), draw or Draw())
    while (inputs := session.next_case()) is not None:
        session.take(sit(inputs))
    return session.verdict()
