"""Wrong solutions named for their misconception; right ones written another way."""

import inspect
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Attempt:
    """A stand-in for the solution of one exercise.

    ``exercise``: the function it stands for. ``loses``: the criteria it must lose, all
    others it must earn; empty for a right solution. ``because``: the misconception.
    """

    exercise: str
    name: str
    source: str
    loses: tuple[str, ...] = ()
    because: str = ""

    def as_cell(self) -> str:
        """The source as a learner would have typed it into the solution cell."""
        return re.sub(rf"^def {self.name}\b", f"def {self.exercise}", self.source, count=1, flags=re.M)


def mistake(exercise: str, loses: tuple[str, ...], because: str) -> Callable:
    """Marks a wrong solution of ``exercise``: what it must lose, and the misconception."""
    _require_reason(loses, because)
    return _marked(exercise, loses, because)


class Edited:
    """A wrong solution that differs from the right one in a few places; see :func:`edited`."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt


def edited(exercise: str, edits: dict[str, str], loses: tuple[str, ...], because: str) -> Edited:
    """The chapter's own solution of ``exercise`` with each text in ``edits`` replaced.

    Called from a ``mistakes.py``, beside the notebook that holds the solution. Raises
    ValueError when a text is not in the solution exactly once: the solution has changed.
    """
    from autograder.authoring.text import read_text_notebook, solution_of

    folder = Path(sys._getframe(1).f_globals["__file__"]).parent
    source = solution_of(read_text_notebook(folder / f"{folder.name}.py"), exercise)
    for old, new in edits.items():
        if source.count(old) != 1:
            raise ValueError(f"the solution of {exercise} has {source.count(old)} times {old!r}; once is due")
        source = source.replace(old, new)
    _require_reason(loses, because)
    return Edited(Attempt(exercise, exercise, source, loses, because))


def alternative(exercise: str) -> Callable:
    """Marks a right solution of ``exercise``, written another way."""
    return _marked(exercise, (), "")


def _require_reason(loses: tuple[str, ...], because: str) -> None:
    if not loses or not because:
        raise ValueError("a mistake loses something, because of something")


def _marked(exercise: str, loses: tuple[str, ...], because: str) -> Callable:
    def mark(function: Callable) -> Callable:
        source = inspect.getsource(function)
        source = source[re.search(r"^def ", source, flags=re.M).start() :]
        function.attempt = Attempt(exercise, function.__name__, source, loses, because)
        return function

    return mark


def load_attempts(path: Path) -> list[Attempt]:
    """All marked functions and edited solutions of a ``mistakes.py``, in order."""
    found = runpy.run_path(str(path)).items()
    return [replace(value.attempt, name=name) for name, value in found if hasattr(value, "attempt")]
