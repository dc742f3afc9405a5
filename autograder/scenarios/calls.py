"""Which libraries the learner's code called, for exercises that ask for plain Python."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def library_calls(*libraries: str) -> Iterator[set[str]]:
    """Those of ``libraries`` (top-level modules) of which this thread calls a function in the block."""
    called: set[str] = set()

    def notice(frame, event: str, function: Any) -> None:
        if event == "call":
            called.update({_top(frame.f_globals.get("__name__"))} & set(libraries))
        elif event == "c_call":
            called.update(_homes(function) & set(libraries))

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        yield called
    finally:
        sys.setprofile(before)


def _homes(function: Any) -> set[str]:
    """Top-level modules of a built-in function and of the object that it is a method of."""
    owner = getattr(function, "__self__", None)
    kind = owner if isinstance(owner, type) else type(owner)
    return {_top(getattr(function, "__module__", None)), _top(kind.__module__), _top(getattr(owner, "__name__", None))}


def _top(module: Any) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
