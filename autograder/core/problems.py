"""How what is wrong with an author's file is said: in a sentence, with file and line."""

import os
import traceback
from collections.abc import Iterable
from pathlib import Path

from autograder.core.layout import ROOT

NOTHING = "nothing"
_ROOT = f"{ROOT}{os.sep}"
_COURSE = tuple(f"{_ROOT}{folder}{os.sep}" for folder in ("autograder", "exercises"))


class Unreadable(ValueError):
    """An author's file that cannot be read: file, line and what is wrong."""


def listed(names: Iterable[str]) -> str:
    """Criteria or attempts in words, in the order of the alphabet."""
    return ", ".join(sorted(names)) or NOTHING


def where(error: Exception, path: Path) -> str:
    """``notebook.py:12: TypeError: ...``: the line of the file at ``path`` at which ``error`` was raised, and what it says."""
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
