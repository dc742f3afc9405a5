"""What is said of an exception: in the learner's process, and in the interpreter beside it."""

import builtins
import linecache
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any


def describe(error: BaseException, is_learners_file: Callable[[str], bool]) -> dict[str, Any]:
    """The exception's type, its message and the innermost source line of the notebook.

    ``kinds``: names of all its classes, by which ``except`` catches it; qualified by module unless built in.
    """
    return classes_of(error) | {"message": message(error), "line": _learners_line(error, is_learners_file)}


def classes_of(error: BaseException) -> dict[str, Any]:
    """``type`` and ``kinds`` alone."""
    return {"type": type(error).__name__, "kinds": [_full_name(kind) for kind in type(error).__mro__]}


def message(error: BaseException) -> str:
    """``str(error)``, whatever its class does instead."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception:
        return ""


def _full_name(kind: type) -> str:
    if getattr(builtins, kind.__name__, None) is kind:
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _learners_line(error: BaseException, is_learners_file: Callable[[str], bool]) -> str:
    """An exception that is raised again and again has a frame of each time: only the last one's source is read."""
    frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    theirs = deque(((file, line) for file, line in frames if is_learners_file(file)), maxlen=1)
    for file, line in theirs:
        linecache.checkcache(file)
        return linecache.getline(file, line).strip()
    return ""
