"""Which libraries the learner's code called, for exercises that ask for plain Python."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import torch

from gpulab.observe.lines import is_learners

_SETPROFILE = sys.setprofile


@contextmanager
def library_calls(*libraries: str) -> Iterator[set[str]]:
    """Those of ``libraries`` (top-level modules) of which this thread calls a function in the block.

    A learner's function that ends with an array of a library's in a variable has used it too: to
    make one, and to set its shape, calls no function. Calls cannot be watched once the profiler
    that does it has been taken away: that is told as a call of ``sys.setprofile``.
    """
    called: set[str] = set()
    over = False

    def notice(frame, event: str, function: Any) -> None:
        if over:
            return
        if event == "call":
            if not _is_the_graders(frame.f_back):
                called.update({_top(frame.f_globals.get("__name__"))} & set(libraries))
        elif event == "c_call":
            called.update(_homes(function) & set(libraries))
            if function is _SETPROFILE or "_lsprof" in _homes(function):
                called.add("sys.setprofile")
        elif event == "return" and is_learners(frame):
            called.update(_arrays(frame) & set(libraries))

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        yield called
    finally:
        over = True
        if sys.getprofile() is not notice:
            called.add("sys.setprofile")
        sys.setprofile(before)


def _is_the_graders(caller: FrameType | None) -> bool:
    """Whether the scenario itself calls, as it does to describe an exception."""
    return caller is not None and _top(caller.f_globals.get("__name__")) == "autograder"


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
