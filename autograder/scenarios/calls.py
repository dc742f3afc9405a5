"""Which libraries the learner's code called, for exercises that ask for plain Python."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from types import FrameType
from typing import Any

import numpy as np
import torch

from autograder.scenarios.births import births
from gpulab.observe.lines import is_learners

_ARRAYS = {"numpy": np.ndarray, "torch": torch.Tensor}
_UNWATCHED = "sys.setprofile"
_on_profiler: list[set[str]] = []
"""Who is told when a profiler is set, in whatever way: Python's audit hooks hear it and cannot be removed."""


def _hear(event: str, arguments: tuple) -> None:
    if event == "sys.setprofile":
        for called in _on_profiler:
            called.add(_UNWATCHED)


sys.addaudithook(_hear)


@contextmanager
def library_calls(*libraries: str) -> Iterator[set[str]]:
    """Those of ``libraries`` (top-level modules) of which this thread calls a function in the block.

    An array of a library's that comes about, in whatever way, is a call of it; and so is one in a
    variable of a learner's function that ends. Calls cannot be watched once the profiler that does
    it has been taken away: that is told as a call of ``sys.setprofile``.
    """
    called: set[str] = set()
    over = False

    def notice(frame, event: str, function: Any) -> None:
        if over:
            return
        if event == "call":
            if not _is_the_graders(frame.f_back):
                called.update(_homes_of_code(frame) & set(libraries))
        elif event == "c_call":
            called.update(_homes(function) & set(libraries))
        elif event == "return" and is_learners(frame):
            called.update(_arrays(frame) & set(libraries))

    with ExitStack() as watching:
        for library in _ARRAYS.keys() & set(libraries):
            watching.enter_context(births(_ARRAYS[library], lambda library=library: called.add(library)))
        before = sys.getprofile()
        sys.setprofile(notice)
        _on_profiler.append(called)
        try:
            yield called
        finally:
            over = True
            if not _on_profiler or _on_profiler.pop() is not called or sys.getprofile() is not notice:
                called.add(_UNWATCHED)
            sys.setprofile(before)


def _is_the_graders(caller: FrameType | None) -> bool:
    """Whether the scenario itself calls, as it does to describe an exception."""
    return caller is not None and caller.f_code.co_filename.startswith(_folder("autograder"))


def _homes_of_code(frame: FrameType) -> set[str]:
    """By the file that the code is from, whatever its module is called now, and by the module's name."""
    file = frame.f_code.co_filename
    return {library for library in _LIBRARIES if file.startswith(_folder(library))} | {_top(frame.f_globals.get("__name__"))}


_LIBRARIES = ("torch", "numpy", "gpulab", "numba")


@cache
def _folder(library: str) -> str:
    """Where its files are; where it is not installed, nowhere."""
    found = find_spec(library)
    return os.path.dirname(found.origin) + os.sep if found and found.origin else "\0"


def _arrays(frame: FrameType) -> set[str]:
    """Top-level modules of the arrays among a frame's variables."""
    return {_top(type(value).__module__) for value in frame.f_locals.values() if isinstance(value, np.ndarray | torch.Tensor)}


def _homes(function: Any) -> set[str]:
    """Top-level modules of a built-in function and of the object that it is a method of."""
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    return {_top(getattr(function, "__module__", None)), _top(kind.__module__), _top(getattr(owner, "__name__", None))}


def _top(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
