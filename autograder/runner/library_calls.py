"""Which libraries the learner's code called, for exercises that ask for plain Python.

Calls are noticed by a profiler, which Python does not call while it runs, and which sees one thread. So
gpulab's functions that answer an exercise say by themselves that they were called, to Python's audit hooks.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch

from autograder.protocol.event_sink import emit_library_call
from autograder.runner.allocation_hook import on_allocation
from gpulab.observe.lines import is_learners

_ARRAYS = {"numpy": np.ndarray, "torch": torch.Tensor}
_UNWATCHED = "sys.setprofile"
_on_profiler: list["_Called"] = []
"""Who is told when a profiler is set, in whatever way: Python's audit hooks hear it and cannot be removed."""
_on_answer: list["_Called"] = []
"""Who is told when gpulab answers. The referee is, whoever asks: it counts where the evidence says what was called."""
_audit = sys.audit


class _Called(set[str]):
    """Libraries by name. The referee is told of each as it comes: what is taken out again has been called all the same."""

    def update(self, libraries: set[str]) -> None:
        for library in libraries - self:
            self.add(library)

    def add(self, library: str) -> None:
        if library not in self:
            super().add(library)
            emit_library_call(library)


def _hear(event: str, arguments: tuple) -> None:
    if event == "sys.setprofile":
        for called in _on_profiler:
            called.add(_UNWATCHED)
    elif event == "gpulab.answers":
        emit_library_call("gpulab")
        for called in _on_answer:
            called.add("gpulab")


sys.addaudithook(_hear)


@contextmanager
def gpulab_answers() -> Iterator[set[str]]:
    """``{"gpulab"}`` where one of its functions that answer an exercise was called in the block, by whatever thread.

    What answers raises the audit event ``gpulab.answers``. Where there is nothing to hear it any more, that is told
    as such a call.
    """
    called = _Called()
    _on_answer.append(called)
    try:
        yield called
    finally:
        if not _on_answer or _on_answer.pop() is not called or sys.audit is not _audit:
            called.add("gpulab")


@contextmanager
def library_calls(*libraries: str) -> Iterator[set[str]]:
    """Those of ``libraries`` (top-level modules) of which this thread calls a function in the block.

    An array of a library's that comes about, in whatever way, is a call of it; and so is one in a
    variable of a learner's function that ends. Calls cannot be watched once the profiler that does
    it has been taken away: that is told as a call of ``sys.setprofile``.
    """
    called = _Called()
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
        answered = watching.enter_context(gpulab_answers()) if "gpulab" in libraries else set()
        for library in _ARRAYS.keys() & set(libraries):
            watching.enter_context(on_allocation(_ARRAYS[library], lambda library=library: called.add(library)))
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
            called.update(answered)


def _is_the_graders(caller: FrameType | None) -> bool:
    """Whether the scenario itself calls, as it does to describe an exception."""
    return caller is not None and caller.f_code.co_filename.startswith(_folder("autograder"))


def _homes_of_code(frame: FrameType) -> set[str]:
    """By the file that the code is from, whatever its module is called now, and by the module's name."""
    file = frame.f_code.co_filename
    return {library for library in _LIBRARIES if file.startswith(_folder(library))} | {
        _top(dict.get(frame.f_globals, "__name__"))
    }


_LIBRARIES = ("torch", "numpy", "gpulab", "numba")


@cache
def _folder(library: str) -> str:
    """Where its files are; where it is not installed, nowhere."""
    found = find_spec(library)
    return os.path.dirname(found.origin) + os.sep if found and found.origin else "\0"


def _arrays(frame: FrameType) -> set[str]:
    """Top-level modules of the arrays among a frame's variables."""
    kinds = map(type, frame.f_locals.values())
    return {_top(kind.__module__) for kind in kinds if issubclass(kind, np.ndarray) or issubclass(kind, torch.Tensor)}


def _homes(function: Any) -> set[str]:
    """Top-level modules of a built-in function and of the object that it is a method of."""
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    module = owner.__name__ if type(owner) is ModuleType else None
    return {_top(getattr(function, "__module__", None)), _top(kind.__module__), _top(module)}


def _top(module: Any) -> str:
    """Of a plain text: a class's own would run the learner's code here, where nothing is traced."""
    return module.partition(".")[0] if type(module) is str else ""
