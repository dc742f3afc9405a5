"""Wrong solutions named for their misconception; right ones written another way."""

import inspect
import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass
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
    if not loses or not because:
        raise ValueError("a mistake loses something, because of something")
    return _marked(exercise, loses, because)


def alternative(exercise: str) -> Callable:
    """Marks a right solution of ``exercise``, written another way."""
    return _marked(exercise, (), "")


def _marked(exercise: str, loses: tuple[str, ...], because: str) -> Callable:
    def mark(function: Callable) -> Callable:
        source = inspect.getsource(function)
        source = source[re.search(r"^def ", source, flags=re.M).start() :]
        function.attempt = Attempt(exercise, function.__name__, source, loses, because)
        return function

    return mark


def load_attempts(path: Path) -> list[Attempt]:
    """All marked functions of a ``mistakes.py``, in order."""
    found = runpy.run_path(str(path)).values()
    return [value.attempt for value in found if hasattr(value, "attempt")]
