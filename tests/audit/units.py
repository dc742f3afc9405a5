"""The units of an audit: exercises, rooms of tests, some of them with the newest PyTorch too, PyTorch's table of operations;
and the files that each depends on.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.authoring.authored import records
from autograder.authoring.drafts import in_the_book
from autograder.authoring.text import read_text_notebook
from autograder.notebooks.cells import exercises_of
from tests.rooms import ROOMS, ROOT

EXERCISES = ROOT / "exercises"
NEWEST = ROOT / ".venv-newest" / "bin" / "python"
"""Its PyTorch is the newest that pyproject.toml allows; made by make."""
NEWEST_ROOMS = ("device", "kernels", "collectives", "memory", "unit")
"""Rooms of what rests on PyTorch's internals."""
MACHINERY = ("autograder", "gpulab", "constraints.txt")
EVERYTHING = (
    *MACHINERY,
    "exercises",
    "chapters",
    "tests",
    "tools",
    "evidence",
    "pyproject.toml",
    "Makefile",
    "_toc.yml",
    "_config.yml",
)


@dataclass(frozen=True)
class Unit:
    """``of``: the chapter or room whose it is. ``command``: is handed the path to write to (:mod:`tests.audit.unit`).

    ``depends``: files and folders; as long as they stay as they are, it is not tried again.
    """

    name: str
    of: str
    command: tuple[str, ...]
    depends: tuple[str, ...] = EVERYTHING

    @property
    def file(self) -> str:
        return self.name.replace(" ", "-")


def units(chapter: str = "", room: str = "") -> list[Unit]:
    """All of the book; those of a chapter, which may be a draft; those of a room."""
    if room:
        return [_tests("room", room), *_opinfo(room)]
    if chapter:
        return [*_exercises(chapter), _tests("chapter", chapter)]
    exercises = [unit for name in in_the_book(EXERCISES) for unit in _exercises(name)]
    return [*exercises, *(unit for name in ROOMS for unit in units(room=name)), *newest()]


def newest() -> list[Unit]:
    """Rooms with the newest PyTorch."""
    return [_unit("newest", room, f"room {room}", EVERYTHING, str(NEWEST)) for room in NEWEST_ROOMS]


def _exercises(chapter: str) -> Iterator[Unit]:
    """Of the machinery each depends on the files that its plays executed when it was tried, or on all where that is not known."""
    kept = records(EXERCISES / chapter)
    for _, name, _ in exercises_of(read_text_notebook(Path(EXERCISES, chapter, "notebook.py"))):
        executed = kept.get(name, {}).get("executed") or MACHINERY
        yield _unit("exercise", name, f"chapter {chapter}", ("constraints.txt", *executed, f"exercises/{chapter}"))


def _tests(of: str, name: str) -> Unit:
    return _unit(of, name, f"{of} {name}", EVERYTHING)


def _opinfo(room: str) -> list[Unit]:
    return [_unit("opinfo", "", "room device", (*MACHINERY, "tests/cuda/opinfo.py"))] if room == "device" else []


def _unit(kind: str, name: str, of: str, depends: tuple[str, ...], python: str = sys.executable) -> Unit:
    return Unit(f"{kind} {name}".strip(), of, (python, "-m", "tests.audit.unit", kind, name), depends)
