"""Where a class stands: every submission's entry of the ledger, and what the class lost, criterion by criterion."""

import random
import re
import statistics
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.core.ledger import Entry, Ledger
from autograder.core.verdict import Line, Verdict
from autograder.instructor.runtimes import Runtime, runtime_of

NOT_JUDGED = "Not judged until this holds"


@dataclass(frozen=True)
class Learner:
    """One submission. ``name`` is what the page calls the learner. ``runtime`` is None where no cell was timed."""

    name: str
    entry: Entry
    runtime: Runtime | None

    @property
    def score(self) -> float:
        """Points by the referee, before manual grading and penalties."""
        return sum(verdict.score for verdict in self.entry.verdicts.values())

    @property
    def noted(self) -> bool:
        return bool(self.entry.notes or self.entry.incidents or self.entry.flags)

    def of(self, exercise: str) -> Verdict | None:
        return next((verdict for verdict in self.entry.verdicts.values() if verdict.exercise == exercise), None)

    def line(self, exercise: str, criterion: str) -> Line | None:
        verdict = self.of(exercise)
        return next((line for line in verdict.lines if line.criterion == criterion), None) if verdict else None


@dataclass(frozen=True)
class Row:
    """One criterion and what became of it, learner by learner: a line, or None of who has no verdict."""

    exercise: str
    criterion: str
    says: str
    points: float
    lines: tuple[Line | None, ...]

    @property
    def earned(self) -> int:
        return sum(line is not None and line.status == "earned" for line in self.lines)

    @property
    def lost(self) -> list[Line]:
        """Of those who lost it, and not because a criterion that it rests on was lost."""
        return [line for line in self.lines if line is not None and outcome(line) == "lost"]

    def sentences(self, least: int = 1) -> list[tuple[int, str]]:
        """How many were told what, the most frequent first, figures aside; each as the first of them was told.

        ``least``: sentences that fewer learners were told are left out.
        """
        told: dict[str, list[str]] = {}
        for line in self.lost:
            told.setdefault(re.sub(r"\d[\d.,]*", "0", line.message), []).append(line.message)
        return sorted(((len(same), same[0]) for same in told.values() if len(same) >= least), key=lambda pair: -pair[0])


def outcome(line: Line | None) -> str:
    """``earned``, ``lost``, ``not judged`` (what it rests on was lost), ``not gradable`` (here) or ``missing``."""
    if line is None:
        return "missing"
    if line.status == "lost" and line.message.startswith(NOT_JUDGED):
        return "not judged"
    return "not gradable" if line.status == "not gradable here" else line.status


@dataclass(frozen=True)
class Standing:
    """A class in one assignment. ``ungraded``: how many handed in and have no entry yet."""

    assignment: str
    learners: tuple[Learner, ...]
    ungraded: int
    anonymous: bool = False

    @cached_property
    def max_score(self) -> float:
        """Points of all criteria that anybody was judged by."""
        return sum(row.points for row in self.rows)

    @cached_property
    def rows(self) -> list[Row]:
        """Every criterion, in the order of the notebook."""
        found = {
            (verdict.exercise, line.criterion): line
            for learner in self.learners
            for verdict in learner.entry.verdicts.values()
            for line in verdict.lines
        }
        return [
            Row(exercise, name, line.says, line.points, tuple(one.line(exercise, name) for one in self.learners))
            for (exercise, name), line in found.items()
        ]

    @property
    def exercises(self) -> list[str]:
        return list(dict.fromkeys(row.exercise for row in self.rows))

    @property
    def median(self) -> float:
        """Points."""
        return statistics.median(learner.score for learner in self.learners)

    def misunderstood(self, most: int = 10) -> list[Row]:
        """The criteria that most learners lost."""
        return sorted((row for row in self.rows if row.lost), key=lambda row: -len(row.lost))[:most]

    def by_tenths(self) -> list[int]:
        """How many learners have 0 to under 10 % of the points, and so on; the last tenth holds full marks too."""
        tenths = Counter(min(9, int(10 * learner.score / self.max_score)) for learner in self.learners)
        return [tenths[place] for place in range(10)]

    def broken(self) -> dict[str, int]:
        """Judges and scenarios that failed, and how many learners may be due points."""
        return dict(Counter(sentence for learner in self.learners for sentence in learner.entry.broken))


def standing(course: Path, assignment: str, anonymous: bool = False) -> Standing:
    """Read from the ledger. Raises LookupError when nothing of the assignment was graded in ``course``."""
    entries = list(Ledger(course).entries(assignment))
    if not any(entry.verdicts for entry in entries):
        raise LookupError(
            f"nothing of {assignment!r} was graded in {course}: run nbgrader autograde or python -m autograder grade first"
        )
    names = _numbers(entries) if anonymous else {entry.student: entry.student for entry in entries}
    learners = [Learner(names[entry.student], entry, runtime_of(course, entry)) for entry in entries]
    handed_in = {path.parent.name for path in (course / "submitted").glob(f"*/{assignment}")}
    return Standing(
        assignment,
        tuple(sorted(learners, key=lambda one: (-one.score, one.name))),
        len(handed_in - {entry.student for entry in entries}),
        anonymous,
    )


def _numbers(entries: list[Entry]) -> dict[str, str]:
    """``Learner 3``: drawn, so that no list of names leads back."""
    places = list(range(1, len(entries) + 1))
    random.SystemRandom().shuffle(places)
    return {entry.student: f"Learner {place}" for entry, place in zip(entries, places, strict=True)}
