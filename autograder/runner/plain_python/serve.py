"""An interpreter for one learner's function: it reads calls of it from stdin, and writes what they gave to stdout.

Before it reads the function it gives up opening files, for good: what is not imported by then never is, nor is a
process or a socket made, whatever the function does to ``sys.path``.

    python -I -S serve.py <folder that autograder lies in> <folder that cloudpickle lies in> [those of libraries that are there]
"""

import importlib
import io
import linecache
import os
import pickle
import resource
import sys
import traceback  # noqa: F401  before files can no longer be opened
from collections.abc import Callable
from typing import BinaryIO

_own = sys.path[:]
sys.path += sys.argv[1:]
import cloudpickle  # noqa: E402, F401

from autograder.protocol.absent import NotHere, absent  # noqa: E402
from autograder.protocol.errors import describe  # noqa: E402
from autograder.runner.plain_python.audited import PROCESS_EVENTS, THREAD_EVENTS, announce_threads  # noqa: E402
from autograder.runner.plain_python.frames import receive, send  # noqa: E402

_MOST_SECONDS = 600
"""Of processor time."""
_background: set[str] = set()


class _Function(pickle.Unpickler):
    def persistent_load(self, name: str) -> object:
        return absent(name)


def serve() -> None:
    requests, replies = _pipes()
    begin = receive(requests)
    sys.setrecursionlimit(begin["recursion_limit"])
    asked = importlib.import_module(begin["asks"]).asked
    for name in begin["libraries"]:
        exec(f"from {name} import *", {})  # with the modules that it would import when they are used
    sys.path[:] = _own
    for name in begin["modules"]:
        if name.partition(".")[0] in sys.stdlib_module_names:
            importlib.import_module(name)
    for file, lines in begin["sources"].items():
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    sys.meta_path.append(NotHere)
    announce_threads()
    sys.addaudithook(_notice)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    _bound_seconds()
    told = lambda error: describe(error, begin["sources"].__contains__)
    function = _loaded(begin["function"], told)
    answer = lambda calls: function if isinstance(function, dict) else asked(function, calls, told)
    while True:
        try:
            calls = receive(requests)
        except EOFError:
            return
        send(replies, _answers(lambda calls=calls: answer(calls), told))


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Copies of stdin and stdout, which lead nowhere from now on: what the function reads and prints is nobody's."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for descriptor in (0, 1):
        os.dup2(2, descriptor)
    return requests, replies


def _loaded(pickled: bytes, told: Callable) -> Callable | dict:
    """The function, or what is said of one that cannot be read here."""
    try:
        return _Function(io.BytesIO(pickled)).load()
    except BaseException as error:
        return {"raised": told(error)}


def _bound_seconds() -> None:
    """A kernel that is killed cannot end this process, which notices it only between two calls."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    if most == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))


def _answers(ask: Callable[[], dict], told: Callable) -> dict:
    _background.clear()
    try:
        found = ask()
    except BaseException as error:
        found = {"raised": told(error)}
    if len(sys._current_frames()) > 1:
        _background.add("thread")
    return found | {"background": sorted(_background)}


def _notice(event: str, arguments: tuple) -> None:
    if event in THREAD_EVENTS:
        _background.add("thread")
    elif event in PROCESS_EVENTS:
        _background.add("process")


if __name__ == "__main__":
    serve()
