"""Wrong solutions named for their misconception; right ones written another way."""

import inspect
import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from autograder.core.layout import NOTEBOOK, ROOT

NOTHING = "nothing"
_ROOT = f"{ROOT}{os.sep}"
_COURSE = tuple(f"{_ROOT}{folder}{os.sep}" for folder in ("autograder", "exercises"))


@dataclass(frozen=True)
class Attempt:
    """A stand-in for the solution of one exercise.

    ``exercise``: the function it stands for. ``loses``: the criteria it must lose, all
    others it must earn; empty for a right solution. ``because``: the misconception.
    ``breaks``: the words of the statement that it breaks.
    """

    exercise: str
    name: str
    source: str
    loses: tuple[str, ...] = ()
    because: str = ""
    breaks: str = ""

    def as_cell(self) -> str:
        """The source as a learner would have typed it into the solution cell."""
        return re.sub(rf"^def {self.name}\b", f"def {self.exercise}", self.source, count=1, flags=re.M)


def listed(names: Iterable[str]) -> str:
    """Criteria or attempts in words, in the order of the alphabet."""
    return ", ".join(sorted(names)) or NOTHING


def mistake(exercise: str, loses: tuple[str, ...], because: str, breaks: str = "") -> Callable:
    """Marks a wrong solution of ``exercise``: what it must lose, the misconception, the words it breaks."""
    _require_reason(loses, because)
    return _marked(exercise, loses, because, breaks)


class Edited:
    """A wrong solution that differs from the right one in a few places; see :func:`edited`."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt


def edited(exercise: str, edits: dict[str, str], loses: tuple[str, ...], because: str, breaks: str = "") -> Edited:
    """The chapter's own solution of ``exercise`` with each text in ``edits`` replaced.

    Called from a ``mistakes.py``, beside the notebook that holds the solution. Raises
    ValueError when a text is not in the solution exactly once: the solution has changed.
    """
    folder = Path(sys._getframe(1).f_globals["__file__"]).parent
    source = _solution(folder / NOTEBOOK, exercise)
    for old, new in edits.items():
        if source.count(old) != 1:
            raise ValueError(f"the solution of {exercise} has {source.count(old)} times {old!r}; expected once")
        source = source.replace(old, new)
    _require_reason(loses, because)
    return Edited(Attempt(exercise, exercise, source, loses, because, breaks))


@cache  # a chapter has a hundred edited solutions, and reading its notebook takes a tenth of a second
def _solution(path: Path, exercise: str) -> str:
    from autograder.authoring.text import read_text_notebook
    from autograder.notebooks.cells import solution_of

    return solution_of(read_text_notebook(path), exercise)


def alternative(exercise: str) -> Callable:
    """Marks a right solution of ``exercise``, written another way."""
    return _marked(exercise, (), "", "")


@dataclass(frozen=True)
class Unbreakable:
    """``words`` of the statement of ``exercise`` that no wrong solution can break, and why."""

    exercise: str
    words: str
    because: str


@dataclass(frozen=True)
class EquivalentMutant:
    """A mutant of the solution of ``exercise`` that is right: the line, what becomes of it, and why."""

    exercise: str
    line: str
    becomes: str
    because: str


def unbreakable(exercise: str, words: str, because: str) -> Unbreakable:
    """Says why no mistake quotes ``words``: a permission to the caller, say, or an example."""
    return Unbreakable(exercise, words, because)


def equivalent_mutant(exercise: str, line: str, becomes: str, because: str) -> EquivalentMutant:
    """Says why the solution with ``line`` replaced by ``becomes`` is right, as ``autograder mutate`` prints them."""
    return EquivalentMutant(exercise, line, becomes, because)


def _require_reason(loses: tuple[str, ...], because: str) -> None:
    if not loses or not because:
        raise ValueError("a mistake loses something, because of something")
    if not isinstance(loses, tuple) or not all(isinstance(name, str) for name in loses):
        raise TypeError(f"loses is {loses!r}; expected a tuple of names, as in ('values',)")


def _marked(exercise: str, loses: tuple[str, ...], because: str, breaks: str) -> Callable:
    if not isinstance(exercise, str):
        raise TypeError("write the name of the exercise in parentheses, as in @alternative('patchify')")

    def mark(function: Callable) -> Callable:
        source = inspect.getsource(function)
        source = source[re.search(r"^def ", source, flags=re.M).start() :]
        function.attempt = Attempt(exercise, function.__name__, source, loses, because, breaks)
        return function

    return mark


@dataclass(frozen=True)
class AuthorsFile:
    """What a ``mistakes.py`` holds, in order."""

    attempts: tuple[Attempt, ...]
    unbreakable: tuple[Unbreakable, ...]
    equivalent_mutants: tuple[EquivalentMutant, ...]


class Unreadable(ValueError):
    """An author's file that does not run: file, line and what is wrong."""


def load(path: Path) -> AuthorsFile:
    """All that a ``mistakes.py`` says. Unbreakable clauses and equivalent mutants may stand in lists.

    Raises Unreadable.
    """
    try:
        values = list(_flat(runpy.run_path(str(path))))
    except Exception as error:
        raise Unreadable(where(error, path)) from error
    return AuthorsFile(
        tuple(replace(value.attempt, name=name) for name, value in values if hasattr(value, "attempt")),
        tuple(value for _, value in values if isinstance(value, Unbreakable)),
        tuple(value for _, value in values if isinstance(value, EquivalentMutant)),
    )


def where(error: Exception, path: Path) -> str:
    """``mistakes.py:12: TypeError: ...``: the line of the file at ``path`` at which ``error`` was raised, and what it says."""
    said = f"{type(error).__name__}: {str(error):.300}"
    if isinstance(error, FileNotFoundError) and error.filename == str(path):
        return f"{path}: it is missing"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}: {said}" if lines else f"{path}: {said}"


def in_course(error: Exception) -> str:
    """As :func:`where`, for the line of ``exercises/`` or ``autograder/`` that is at fault."""
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    else:
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_COURSE)]
        file, line = ours[-1].filename, ours[-1].lineno
    return f"{file.removeprefix(_ROOT)}:{line}: {type(error).__name__}: {str(error):.300}"


def load_attempts(path: Path) -> list[Attempt]:
    """All marked functions and edited solutions of a ``mistakes.py``, in order."""
    return list(load(path).attempts)


def _flat(namespace: dict) -> Iterator[tuple[str, Any]]:
    """Names and values; a list or a tuple counts as its items."""
    for name, value in namespace.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            yield name, item
