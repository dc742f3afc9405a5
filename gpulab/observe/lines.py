"""Finds the source line of the learner's that an operation was called from."""

import functools
import linecache
import os
import sys
import sysconfig
from types import CodeType, FrameType

from gpulab.observe.records import SourceLine

_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _folders_of_libraries(path: list[str]) -> tuple[str, ...]:
    """Python's own folders, ours, and those of ``path`` that pip, Debian or a user's home installs into."""
    folders = {
        os.path.join(_PROJECT, "gpulab"),
        os.path.join(_PROJECT, "autograder"),
        os.path.join(_PROJECT, "exercises"),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(folder for folder in path if os.path.basename(folder) in ("site-packages", "dist-packages")),
    }
    return tuple(folder + os.sep for folder in folders)


_NOT_LEARNERS = _folders_of_libraries(sys.path)


_LIBRARIES: dict[int, dict] = {}
"""By ``id`` the namespaces of modules that belong to libraries: to ask a frame for its code raises an audit event each time."""


def is_learners(frame: FrameType) -> bool:
    """Whether no library owns the code that the frame runs."""
    space = frame.f_globals
    if id(space) in _LIBRARIES:
        return False
    if is_learners_file(frame.f_code.co_filename):
        return True
    name = dict.get(space, "__name__")
    if type(name) is str and name != "__main__":
        _LIBRARIES[id(space)] = space
    return False


@functools.lru_cache(maxsize=1 << 14)
def is_learners_file(name: str) -> bool:
    """Whether no library owns the file of that name."""
    return not name.startswith(_NOT_LEARNERS) and not name.startswith("<frozen")


def learners_line() -> SourceLine | None:
    """The innermost line on this thread's stack that no library owns, or None."""
    frame = sys._getframe(1)
    # Most frames are a library's, and on every operation's path: they are passed without a call.
    while frame is not None and (id(frame.f_globals) in _LIBRARIES or not is_learners(frame)):
        frame = frame.f_back
    return None if frame is None else source_line(frame)


def source_line(frame: FrameType, number: int | None = None) -> SourceLine:
    """The line that ``frame`` is at, or was at: ``number``."""
    code, number = frame.f_code, frame.f_lineno if number is None else number
    _, line = _LINES.get((id(code), number), (None, None))
    if line is None:
        text = linecache.getline(code.co_filename, number).strip()
        line = SourceLine(code.co_filename, number, text, code.co_name)
        if text:
            if len(_LINES) >= _MOST_LINES:
                _LINES.clear()
            _LINES[id(code), number] = code, line
    return line


_MOST_LINES = 1 << 14
_LINES: dict[tuple[int, int], tuple[CodeType, SourceLine]] = {}
"""By the ``id`` of the code, which is kept alive, and the line's number: an operation in a loop asks each time."""
