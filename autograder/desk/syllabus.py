"""Courses made of the book: which pages and exercises fill which hours. ``chapters/instructors/syllabus.yml`` holds them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from autograder.desk.effort import Effort, efforts
from autograder.marking.packed import ROOT
from gpulab.book.length import minutes

COURSES = ROOT / "chapters" / "instructors" / "syllabus.yml"


@dataclass(frozen=True)
class Unit:
    """A week, a half-day: ``read`` are pages as ``tensors/views``, ``do`` exercises or whole chapters of them."""

    title: str
    about: str
    read: tuple[str, ...]
    do: tuple[str, ...] = ()

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


@dataclass(frozen=True)
class Course:
    title: str
    says: str
    units: tuple[Unit, ...]

    @property
    def hours(self) -> float:
        return sum(unit.hours for unit in self.units)


def courses(path: Path = COURSES) -> list[Course]:
    """In the order of the file."""
    return [
        Course(course["title"], course["says"], tuple(_unit(**unit) for unit in course["units"]))
        for course in yaml.safe_load(path.read_text("utf-8"))
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
