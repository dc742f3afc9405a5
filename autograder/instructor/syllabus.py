"""Courses made of the book: which pages and exercises fill which hours. ``chapters/instructors/syllabus.yml`` holds them.

What they say of drafts waits there: a course has the chapters that are in the book.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from autograder.core.layout import ROOT
from autograder.instructor.effort import Effort, efforts
from gpulab.book.contents import Contents
from gpulab.book.length import minutes
from gpulab.yaml_files import read_yaml

COURSES = ROOT / "chapters" / "instructors" / "syllabus.yml"


@dataclass(frozen=True)
class Unit:
    """A week, a half-day: ``read`` are pages as ``tensors/views``, ``do`` exercises or whole chapters of them.

    ``waits_for``: the numbers of chapters that it would read and that are drafts.
    """

    title: str
    about: str
    read: tuple[str, ...]
    do: tuple[str, ...] = ()
    waits_for: tuple[int, ...] = ()

    @property
    def reading_minutes(self) -> float:
        return sum(minutes(ROOT / "chapters" / f"{page}.md") for page in self.read)

    @property
    def exercises(self) -> list[Effort]:
        """Raises LookupError for what is neither a chapter nor an exercise."""
        return [one for name in self.do for one in _named(name)]

    @property
    def hours(self) -> float:
        """Reading, and the exercises' estimated minutes."""
        return (self.reading_minutes + sum(one.minutes for one in self.exercises)) / 60

    def without(self, drafts: dict[str, int]) -> "Unit":
        """What is left of it when these chapters, numbers by name, are not there."""
        read = tuple(page for page in self.read if Path(page).name not in drafts)
        do = tuple(name for name in self.do if name.partition(".")[0] not in drafts)
        waits_for = tuple(sorted(drafts[Path(page).name] for page in self.read if page not in read))
        return replace(self, read=read, do=do, waits_for=waits_for)


@dataclass(frozen=True)
class Course:
    """``waits_for``: as a unit's, of all its units."""

    title: str
    says: str
    units: tuple[Unit, ...]
    waits_for: tuple[int, ...] = ()

    @property
    def hours(self) -> float:
        return sum(unit.hours for unit in self.units)

    def without(self, drafts: dict[str, int]) -> "Course":
        """The course without these chapters; a unit that had nothing else is left out."""
        left = [unit.without(drafts) for unit in self.units]
        waits_for = tuple(sorted({number for unit in left for number in unit.waits_for}))
        return replace(self, units=tuple(unit for unit in left if unit.read or unit.do), waits_for=waits_for)


def courses(path: Path = COURSES) -> list[Course]:
    """In the order of the file, without drafts."""
    return [course.without(Contents.read(ROOT).drafts) for course in planned(path)]


def planned(path: Path = COURSES) -> list[Course]:
    """As they will be when every chapter is there."""
    return [
        Course(course["title"], course["says"], tuple(_unit(**unit) for unit in course["units"]))
        for course in read_yaml(path)
    ]


def _unit(title: str, about: str, read: list[str], do: list[str] | None = None) -> Unit:
    return Unit(title, about, tuple(read), tuple(do or ()))


def _named(name: str) -> list[Effort]:
    chapter, _, function = name.partition(".")
    found = [one for one in _efforts(chapter) if not function or one.name == name]
    if not found:
        raise LookupError(f"{name!r} is no exercise and no chapter with exercises")
    return found


@cache
def _efforts(chapter: str) -> list[Effort]:
    folder = ROOT / "exercises" / chapter
    return efforts(folder) if folder.is_dir() else []
