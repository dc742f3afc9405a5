"""Points for one exercise, criterion by criterion, with a sentence for each lost one."""

from dataclasses import asdict, dataclass
from typing import Literal

from autograder.core.exercise import Failure, NotGradable, Outline

MAX_MESSAGE_CHARACTERS = 600
UNWRITTEN = "The function is not written yet: it raised NotImplementedError."
"""The message of a line of a starter."""
Status = Literal["earned", "lost", "not gradable here"]


@dataclass(frozen=True)
class Line:
    """One criterion's outcome. ``message`` is empty when its points are earned.

    ``misconception``: the key of the one that the points were lost by, where that is certain; ``read``: the title of the
    section that teaches it.
    """

    criterion: str
    says: str
    points: float
    status: Status
    message: str = ""
    misconception: str = ""
    read: str = ""


@dataclass(frozen=True)
class Verdict:
    """What an exercise earned. ``max_score`` is the sum of all criteria's points."""

    exercise: str
    lines: tuple[Line, ...]

    @property
    def score(self) -> float:
        return sum(line.points for line in self.lines if line.status == "earned")

    @property
    def max_score(self) -> float:
        return sum(line.points for line in self.lines)

    @property
    def lost(self) -> list[str]:
        """The criteria that were not earned, but for those that this machine cannot decide."""
        return [line.criterion for line in self.lines if line.status == "lost"]

    def to_dict(self) -> dict:
        return {"exercise": self.exercise, "lines": [asdict(line) for line in self.lines]}

    @classmethod
    def from_dict(cls, data: dict) -> "Verdict":
        return cls(data["exercise"], tuple(Line(**line) for line in data["lines"]))


class Scorecard:
    """Collects the findings of an exercise's cases, criterion by criterion."""

    def __init__(self, exercise: Outline) -> None:
        self.exercise = exercise
        self._judged: set[str] = set()
        self._findings: dict[str, Failure | NotGradable] = {}

    def judged(self, criterion: str) -> None:
        self._judged.add(criterion)

    def found(self, finding: Failure | NotGradable) -> None:
        """Keep the first finding for a criterion; a loss outweighs a "not gradable"."""
        earlier = self._findings.get(finding.criterion)
        if earlier is None or (isinstance(earlier, NotGradable) and isinstance(finding, Failure)):
            # A part of the message may be the learner's own text.
            message = finding.message[:MAX_MESSAGE_CHARACTERS]
            self._findings[finding.criterion] = type(finding)(finding.criterion, message)

    @property
    def lost_something(self) -> bool:
        return any(isinstance(finding, Failure) for finding in self._findings.values())

    @property
    def lost(self) -> set[str]:
        """The criteria that cannot be earned any more, whatever the cases to come show."""
        names = [criterion.name for criterion in self.exercise.criteria]
        return {name for name in names if self._findings.keys() & {name, *self._bases(name)}}

    @property
    def nothing_left(self) -> bool:
        """Whether nothing can be earned any more, whatever the cases to come show."""
        return len(self.lost) == len(self.exercise.criteria)

    def lose_all(self, message: str) -> None:
        for criterion in self.exercise.criteria:
            self.found(Failure(criterion.name, message))

    def verdict(self) -> Verdict:
        return Verdict(self.exercise.name, tuple(self._line(c) for c in self.exercise.criteria))

    def _line(self, criterion) -> Line:
        status, message = self._outcome(criterion.name)
        if status == "earned":
            fallen = next((base for base in self._bases(criterion.name) if self._outcome(base)[0] != "earned"), None)
            if fallen is not None:
                status, message = "lost", f"Not judged until this holds: {self._says(fallen)}."
        return Line(criterion.name, criterion.says, criterion.points, status, message)

    def _outcome(self, name: str) -> tuple[Status, str]:
        finding = self._findings.get(name)
        if isinstance(finding, NotGradable):
            return "not gradable here", finding.message
        if finding is not None:
            return "lost", finding.message
        if name not in self._judged:
            return "lost", "The hidden tests of this point did not run to their end."
        return "earned", ""

    def _bases(self, name: str) -> list[str]:
        """All criteria that ``name`` requires, directly or not, nearest first."""
        requires = {criterion.name: criterion.requires for criterion in self.exercise.criteria}
        bases = list(requires[name])
        for base in bases:
            bases += [further for further in requires[base] if further not in bases]
        return bases

    def _says(self, name: str) -> str:
        return next(c.says for c in self.exercise.criteria if c.name == name)
