"""Marks in an author's files of what is still to be written, by file and line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.core.layout import NOTEBOOK, ROOT
from autograder.misconceptions.corpus import CORPUS
from autograder.misconceptions.sentences import MISCONCEPTIONS

_MARK = re.compile(r"WRITE\((?P<of>\w+)\): (?P<what>.+?)[\"'`*)\],.;]*$", re.M)


@dataclass(frozen=True)
class Todo:
    """A place that is still to be written. ``of``: the exercise's function or the chapter."""

    of: str
    sentence: str


def todos(exercises: Path, chapter: str) -> Iterator[Todo]:
    """Every mark that ``autograder new`` wrote and nobody replaced, and every file of the chapter's that is missing."""
    for path, holds in rooms(exercises, chapter).items():
        base = exercises.parent if path.is_relative_to(exercises.parent) else ROOT
        name = path.relative_to(base).as_posix()
        if not path.exists():
            yield Todo(chapter, f"{name} is missing: write {holds}")
            continue
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            for mark in _MARK.finditer(line):
                if mark["of"] == chapter or path.name != "_toc.yml":
                    yield Todo(mark["of"], f"{name}:{number}: write {mark['what']}")


def rooms(exercises: Path, chapter: str) -> dict[Path, str]:
    """The files of a chapter, in the order in which they are best written, and what each holds."""
    pages = list((ROOT / "chapters").glob(f"*/{chapter}.md"))
    found = {
        exercises / chapter / NOTEBOOK: "the exercises' text notebook",
        **{path: "" for path in sorted((exercises / chapter).glob("*/*.py"))},
        **{path: "" for path in sorted((exercises / chapter).glob(f"*/{MISCONCEPTIONS}"))},
        exercises / chapter / CORPUS: "wrong solutions, right ones written another way, and cheats",
        exercises / chapter / "hints.yml": "two hints a function, and the section to read again",
        **(dict.fromkeys(pages, "") or {ROOT / "chapters" / "<part>" / f"{chapter}.md": "the page"}),
        **{page.with_suffix(".claims.yml"): "the claims that the page examines" for page in pages},
        ROOT / "tests" / "book" / f"test_claims_{chapter}.py": "a test for each claim of the chapter",
        ROOT / "_toc.yml": "the book's contents",
    }
    return {path: holds for path, holds in found.items() if _room_is_here(path)}


def _room_is_here(path: Path) -> bool:
    """Where the graders are installed without the book and its tests, nothing is written there."""
    return (ROOT / path.relative_to(ROOT).parts[0]).exists() if path.is_relative_to(ROOT) else True
