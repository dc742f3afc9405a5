"""Plays under ``sys.settrace``, in a process of their own: what is seen of them, whatever becomes of their threads and ranks."""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from autograder.notebooks.forked import in_a_fork, silence


class Seen:
    """Lines, each once, in a file: a rank that is killed has left its own there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] = set()

    def add(self, line: str) -> None:
        if line not in self._known:
            self._known.add(line)
            with open(self._path, "a") as lines:  # anew: ranks close what they inherit
                lines.write(f"{line}\n")


def seen_in(play: Callable[..., None], *arguments: object) -> set[str]:
    """What ``play(*arguments, seen)`` adds to ``seen``. Raises RuntimeError where it raises."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "seen")
        path.touch()
        in_a_fork(_played, play, path, *arguments)
        return set(path.read_text().splitlines())


def _played(play: Callable[..., None], path: Path, *arguments: object) -> Iterator[str]:
    with silence():
        play(*arguments, Seen(path))
    yield from ()


@contextmanager
def calls_traced(called: Callable[[FrameType], None]) -> Iterator[None]:
    """Inside, ``called`` is handed the frame of each call of a Python function, in every thread."""

    def trace(frame: FrameType, event: str, argument: object) -> None:
        called(frame)  # nothing is returned, so that no line is traced

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
