"""Where a class stands: every submission's entry of the ledger, and what the class lost, criterion by criterion."""

import random
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.core.ledger import Entry, Ledger
from autograder.core.verdict import Line, Verdict
from autograder.instructor.hand_ins import LATE, Group, HandIns, groups, hand_ins, how_late
from autograder.instructor.runtimes import Runtime, runtime_of

NOT_JUDGED = ("Not judged until this holds", "These tests were not run", "The hidden tests of this")
NOT_WRITTEN = "The function is not written yet"


@dataclass(frozen=True)
class Person:
    """What the page calls a learner: by name, and by number where names are hidden."""

    name: str
    number: str


@dataclass(frozen=True)
class Learner:
    """One graded submission. ``runtime`` is None where no cell was timed; ``late``: as ``2 d 3 h``, empty of one in time."""

    person: Person
    entry: Entry
    runtime: Runtime | None
    late: str = ""

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def score(self) -> float:
        """Points by the referee, before manual grading and penalties."""
        return sum(verdict.score for verdict in self.entry.verdicts.values())

    @property
    def noted(self) -> bool:
        return bool(self.entry.notes or self.entry.incidents)

    @cached_property
    def _verdicts(self) -> dict[str, Verdict]:
        return {verdict.exercise: verdict for verdict in self.entry.verdicts.values()}

    @cached_property
    def _lines(self) -> dict[tuple[str, str], Line]:
        return {(name, line.criterion): line for name, verdict in self._verdicts.items() for line in verdict.lines}

    def of(self, exercise: str) -> Verdict | None:
        return self._verdicts.get(exercise)

    def line(self, exercise: str, criterion: str) -> Line | None:
        return self._lines.get((exercise, criterion))


@dataclass(frozen=True)
class Row:
    """One criterion and what became of it, learner by learner: a line, or None of who has no verdict."""

    exercise: str
    criterion: str
    says: str
    points: float
    lines: tuple[Line | None, ...]

    @cached_property
    def counts(self) -> Counter[str]:
        """Learners by outcome."""
        return Counter(map(outcome, self.lines))

    @property
    def judged(self) -> int:
        return sum(self.counts[one] for one in ("earned", "named", "lost"))

    @property
    def unnamed(self) -> list[int]:
        """The places of those who lost it, by no misconception that is known, and not for another criterion's sake."""
        return [place for place, line in enumerate(self.lines) if outcome(line) == "lost"]

    def sentences(self, least: int = 1) -> list[tuple[str, list[int]]]:
        """What those were told, figures aside, and the places of who was told it; the most frequent first.

        Each as the first of them was told. ``least``: sentences that fewer learners were told are left out.
        """
        told: dict[str, list[int]] = defaultdict(list)
        for place in self.unnamed:
            told[without_figures(self.lines[place].message)].append(place)
        alike = [(self.lines[places[0]].message, places) for places in told.values() if len(places) >= least]
        return sorted(alike, key=lambda one: -len(one[1]))


def without_figures(sentence: str) -> str:
    """Sentences that are equal without them are alike."""
    return re.sub(r"\d[\d.,]*", "0", sentence)


def outcome(line: Line | None) -> str:
    """``earned``, ``named`` (lost by a misconception that is known), ``lost``, ``not written``, ``not judged`` (what it rests
    on was lost, or its tests were not run), ``not gradable`` (here) or ``missing``."""
    if line is None:
        return "missing"
    if line.status != "lost":
        return "not gradable" if line.status == "not gradable here" else line.status
    if line.misconception:
        return "named"
    if line.message.startswith(NOT_JUDGED):
        return "not judged"
    return "not written" if line.message.startswith(NOT_WRITTEN) else "lost"


@dataclass(frozen=True)
class Function:
    """One exercise: who has a verdict on it, and what it earned them. ``rows``: its criteria."""

    exercise: str
    points: tuple[float, ...]
    most: float
    not_written: int
    rows: tuple[Row, ...]

    @property
    def full(self) -> int:
        return sum(points == self.most for points in self.points)

    @property
    def median(self) -> float:
        return statistics.median(self.points)

    def lost(self, *outcomes: str) -> int:
        """How many criteria were lost in these ways, all learners together."""
        return sum(row.counts[one] for row in self.rows for one in outcomes)


@dataclass(frozen=True)
class Standing:
    """A class in one assignment. ``groups``: whom no figure counts and why, and who came late, by the learner's id."""

    assignment: str
    learners: tuple[Learner, ...]
    groups: tuple[Group, ...]
    people: dict[str, Person]
    hand_ins: HandIns
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

    @cached_property
    def functions(self) -> list[Function]:
        """Every exercise, in the order of the notebook."""
        return [self._function(name) for name in dict.fromkeys(row.exercise for row in self.rows)]

    def _function(self, exercise: str) -> Function:
        verdicts = [verdict for learner in self.learners if (verdict := learner.of(exercise))]
        rows = tuple(row for row in self.rows if row.exercise == exercise)
        unwritten = sum(all(outcome(line) == "not written" for line in verdict.lines) for verdict in verdicts)
        points, most = tuple(verdict.score for verdict in verdicts), sum(row.points for row in rows)
        return Function(exercise, points, most, unwritten, rows)

    @property
    def starts(self) -> list[int]:
        """The places of the rows that begin a function."""
        return [
            place for place, row in enumerate(self.rows) if not place or row.exercise != self.rows[place - 1].exercise
        ]

    def people_at(self, places: Sequence[int]) -> list[Person]:
        return [self.learners[place].person for place in places]

    @cached_property
    def names(self) -> set[str]:
        """All that anybody in the class is called."""
        enrolled = self.hand_ins.enrolled
        return set(self.people) | {
            name for student, names in (enrolled.students if enrolled else {}).items() for name in (student, *names)
        }

    def late(self, student: str) -> str:
        """As ``2 d 3 h``; empty of who was in time, or handed nothing in."""
        return next((group.remarks.get(student, "") for group in self.groups if group.title == LATE), "")

    @property
    def median(self) -> float:
        """Points."""
        return statistics.median(learner.score for learner in self.learners)

    def lost_without_a_name(self) -> list[Row]:
        """The criteria that anybody lost so, those of most learners first."""
        return sorted((row for row in self.rows if row.unnamed), key=lambda row: -len(row.unnamed))

    def by_tenths(self) -> list[int]:
        """How many learners have 0 to under 10 % of the points, and so on; the last tenth holds full marks too."""
        tenths = Counter(min(9, int(10 * learner.score / self.max_score)) for learner in self.learners)
        return [tenths[place] for place in range(10)]

    def broken(self) -> dict[str, list[Learner]]:
        """Judges and scenarios that failed, and the learners who may be due points."""
        found: dict[str, list[Learner]] = defaultdict(list)
        for learner in self.learners:
            for sentence in dict.fromkeys(learner.entry.broken):
                found[sentence].append(learner)
        return found


def standing(course: Path, assignment: str, anonymous: bool = False) -> Standing:
    """Read from the ledger. Raises LookupError when nothing of the assignment was graded in ``course``."""
    entries = list(Ledger(course).entries(assignment))
    graded = [entry for entry in entries if entry.state == "graded" and entry.verdicts]
    if not graded:
        raise LookupError(_nothing_graded(course, assignment))
    handed_in = hand_ins(course, assignment)
    apart = groups(handed_in, entries)
    others = {student for group in apart for student in group.remarks} - {entry.student for entry in graded}
    people = _people([entry.student for entry in graded], others, anonymous)
    return Standing(
        assignment,
        tuple(sorted((_learner(course, entry, people, handed_in) for entry in graded), key=_place)),
        tuple(apart),
        people,
        handed_in,
        anonymous,
    )


def _learner(course: Path, entry: Entry, people: dict[str, Person], handed_in: HandIns) -> Learner:
    late = handed_in.late.get(entry.student)
    return Learner(people[entry.student], entry, runtime_of(course, entry), how_late(late) if late else "")


def _place(learner: Learner) -> tuple[float, str]:
    return -learner.score, learner.name


def _nothing_graded(course: Path, assignment: str) -> str:
    there = sorted(path.name for path in (course / "ledger").glob("*") if any(path.glob("*.json")))
    graded = f"; graded there: {', '.join(there)}" if there else ""
    return (
        f"nothing of {assignment!r} was graded in {course}{graded}. Run python -m autograder grade {assignment} first, "
        "or name the course's folder: COURSE=FOLDER python -m autograder report ..."
    )


def _people(graded: Sequence[str], others: Collection[str], anonymous: bool) -> dict[str, Person]:
    """``Learner 3``: drawn, so that no list of names leads back."""
    numbers: dict[str, str] = {}
    for some in (graded, sorted(others)):
        places = list(range(len(numbers) + 1, len(numbers) + len(some) + 1))
        random.SystemRandom().shuffle(places)
        numbers |= {student: f"Learner {place}" for student, place in zip(some, places, strict=True)}
    return {student: Person(number if anonymous else student, number) for student, number in numbers.items()}
