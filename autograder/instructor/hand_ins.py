"""Beside the ledger: who is in the class, who handed in, when, and whom no figure of a report counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from autograder.core.ledger import NOT_GRADED, Entry, Ledger
from autograder.nbgrader.gradebook import gradebook_of
from autograder.nbgrader.times import time_of

LATE = "Late"


@dataclass(frozen=True)
class Enrolled:
    """What the gradebook knows. ``students``: by id the other names of each; ``due``: in UTC without a zone."""

    students: dict[str, tuple[str, ...]]
    due: datetime | None


@dataclass(frozen=True)
class HandIns:
    """``enrolled``: None where no gradebook can be read. ``late``: by student, of those who were."""

    enrolled: Enrolled | None
    folders: frozenset[str]
    entries: frozenset[str]
    late: dict[str, timedelta] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Learners of whom a report says something beside their points. ``remarks``: by student, of each, often none."""

    title: str
    about: str
    remarks: dict[str, str]


def hand_ins(course: Path, assignment: str) -> HandIns:
    about = enrolled(course, assignment)
    folders = {path.parent.name: path for path in (course / "submitted").glob(f"*/{assignment}")}
    late = dict(_late(folders, about.due)) if about and about.due else {}
    entries = {path.stem for path in Ledger(course).path(assignment, "*").parent.glob("*.json")}
    return HandIns(about, frozenset(folders), frozenset(entries), late)


def enrolled(course: Path, assignment: str) -> Enrolled | None:
    """From nbgrader's gradebook; None where there is none, or none that can be read."""
    try:
        with gradebook_of(course) as gradebook:
            if gradebook is None:
                return None
            names = {one.id: tuple(filter(None, (one.first_name, one.last_name))) for one in gradebook.students}
            due = [one.duedate for one in gradebook.assignments if one.name == assignment]
            return Enrolled(names, due[0] if due else None)
    except SQLAlchemyError:
        return None


def _late(folders: dict[str, Path], due: datetime) -> Iterator[tuple[str, timedelta]]:
    for student, folder in folders.items():
        handed_in, _ = time_of(folder)
        if handed_in and handed_in > due:
            yield student, handed_in - due


def groups(handed_in: HandIns, entries: Sequence[Entry]) -> list[Group]:
    """Those that are not empty. All but the last name whom no figure counts, or not in full."""
    by_student = {entry.student: entry for entry in entries}
    known = set(handed_in.enrolled.students) if handed_in.enrolled else set()
    late = sorted(handed_in.late.items(), key=lambda one: -one[1])
    found = [
        Group("Handed nothing in", "", dict.fromkeys(sorted(known - handed_in.folders - handed_in.entries), "")),
        Group(
            "Not graded yet",
            "The next grading takes them.",
            dict.fromkeys(sorted(handed_in.folders - handed_in.entries), ""),
        ),
        Group("Could not be graded", "What was handed in has to be mended or found.", _could_not_be_graded(entries)),
        Group("Grading did not end", "A grader is at work, or has to be run again.", _unfinished(entries)),
        Group("Nothing was judged", "No hidden test has a verdict.", _without_verdicts(entries)),
        Group(
            "Entries that cannot be read", "Grade them again.", dict.fromkeys(handed_in.entries - set(by_student), "")
        ),
        Group(LATE, "Points stand as they were earned, before any penalty.", {who: how_late(by) for who, by in late}),
    ]
    return [group for group in found if group.remarks]


def _could_not_be_graded(entries: Sequence[Entry]) -> dict[str, str]:
    some = [entry for entry in entries if entry.outcome == NOT_GRADED]
    return {entry.student: entry.notes[0].partition(": ")[2] if entry.notes else "" for entry in some}


def _unfinished(entries: Sequence[Entry]) -> dict[str, str]:
    return {entry.student: entry.state for entry in entries if entry.state != "graded"}


def _without_verdicts(entries: Sequence[Entry]) -> dict[str, str]:
    some = [entry for entry in entries if entry.state == "graded" and not entry.verdicts]
    return {entry.student: entry.outcome for entry in some if entry.outcome != NOT_GRADED}


def how_late(by: timedelta) -> str:
    """``2 d 3 h``, ``4 h``, ``12 min``: rounded down."""
    hours, minutes = by.seconds // 3600, by.seconds // 60 % 60
    if by.days:
        return f"{by.days} d {hours} h"
    return f"{hours} h" if hours else f"{minutes} min"
