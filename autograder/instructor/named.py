"""What a class lost by misconceptions that are known: who shows which, and which sections of the book teach them."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase

from autograder.core.layout import ROOT
from autograder.core.verdict import Line
from autograder.instructor.standing import Learner, Standing, outcome
from autograder.misconceptions.sentences import Misconception, misconceptions_of
from autograder.selfcheck.chapters import Chapter


@dataclass(frozen=True)
class Shown:
    """A misconception in an exercise, and the learners who lost something by it. ``letter``: unique in its exercise.

    ``of``: how many have a verdict on the exercise.
    """

    exercise: str
    said: Misconception
    letter: str
    learners: tuple[Learner, ...]
    of: int


@dataclass(frozen=True)
class Section:
    """One of the book, with what its readers showed. ``address``: empty where no site is known."""

    title: str
    chapter: str
    address: str
    shown: tuple[Shown, ...]

    @property
    def learners(self) -> int:
        return len({learner.person.number for one in self.shown for learner in one.learners})


class Named:
    """All that ``standing`` names. ``published``: sections lead to the published book, and not to a site on this disk."""

    def __init__(self, standing: Standing, published: bool = False) -> None:
        self._standing = standing
        self._published = published
        self._chapters: dict[str, Chapter] = {}
        self._addresses: dict[tuple[str, str], str] = {}

    @cached_property
    def shown(self) -> list[Shown]:
        """Those of most learners first."""
        found = [one for function in self._standing.functions for one in self._of(function.exercise)]
        return sorted(found, key=lambda one: -len(one.learners))

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], Shown]:
        return {(one.exercise, one.said.key): one for one in self.shown}

    def of(self, exercise: str, line: Line | None) -> Shown | None:
        """By which of them this line was lost."""
        return self._by_key[exercise, line.misconception] if outcome(line) == "named" else None

    @cached_property
    def sections(self) -> list[Section]:
        """Those of most learners first."""
        found: dict[tuple[str, str], list[Shown]] = defaultdict(list)
        for one in self.shown:
            found[_chapter_of(one.exercise), one.said.read].append(one)
        sections = [self._section(chapter, title, some) for (chapter, title), some in found.items()]
        return sorted(sections, key=lambda section: -section.learners)

    def to_read(self, exercise: str) -> Section:
        """The section that an exercise's hints name."""
        chapter = _chapter_of(exercise)
        return self._section(chapter, self._about(chapter).help(exercise.partition(".")[2]).read, [])

    def _section(self, chapter: str, title: str, shown: list[Shown]) -> Section:
        about = self._about(chapter)
        if (chapter, title) not in self._addresses:  # each reads the site's configuration
            self._addresses[chapter, title] = about.where(title, self._published)
        return Section(title, about.title, self._addresses[chapter, title], tuple(shown))

    def _about(self, chapter: str) -> Chapter:
        return self._chapters.setdefault(chapter, Chapter(ROOT / "exercises" / chapter))

    def _of(self, exercise: str) -> list[Shown]:
        who: dict[str, list[Learner]] = defaultdict(list)
        lines: dict[str, Line] = {}
        verdicts = [(learner, verdict) for learner in self._standing.learners if (verdict := learner.of(exercise))]
        for learner, verdict in verdicts:
            its = {line.misconception: line for line in verdict.lines if outcome(line) == "named"}
            lines |= its
            for key in its:
                who[key].append(learner)
        said = misconceptions_of(exercise) if who else {}
        ranked = sorted(who, key=lambda key: (-len(who[key]), key))
        return [
            Shown(exercise, said.get(key) or self._of_old(lines[key], exercise), letter, tuple(who[key]), len(verdicts))
            for key, letter in zip(ranked, _letters(len(ranked)), strict=True)
        ]

    def _of_old(self, line: Line, exercise: str) -> Misconception:
        """One that the exercise does not name any more: as far as the ledger knows it."""
        read = line.read or self.to_read(exercise).title
        return Misconception(line.misconception, line.misconception.replace("_", " "), line.message, read)


def _chapter_of(exercise: str) -> str:
    return exercise.partition(".")[0]


def _letters(count: int) -> list[str]:
    """A, B, ... Z, A1, B1, ..."""
    return [ascii_uppercase[place % 26] + (str(place // 26) if place >= 26 else "") for place in range(count)]
