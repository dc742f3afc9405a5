"""An interpreter for one learner's function: it reads calls of it from stdin, and writes what they gave to stdout.

Before it reads the function it gives up opening files, for good: what is not imported by then never is, nor is a
process or a socket made, whatever the function does to ``sys.path``.

    python -I -S serve.py <folder that autograder lies in> <folder that cloudpickle lies in> [those of libraries that are there]
"""

import importlib
import io
import linecache
import marshal
import pickle
import resource
import struct
import sys
import traceback  # noqa: F401  before files can no longer be opened
from collections.abc import Callable

_own = sys.path[:]
sys.path += sys.argv[1:]
import cloudpickle  # noqa: E402, F401

from autograder.runner.plain_python.absent import NotHere, absent  # noqa: E402
from autograder.runner.plain_python.errors import describe  # noqa: E402

_LENGTH = struct.Struct("<Q")
_KINDS = {
    "_thread.start_new_thread": "thread",
    "_thread.start_joinable_thread": "thread",
    "os.fork": "process",
    "os.forkpty": "process",
    "os.exec": "process",
}
_background: set[str] = set()


class _Function(pickle.Unpickler):
    def persistent_load(self, name: str) -> object:
        return absent(name)


def serve() -> None:
    begin = _received()
    sys.setrecursionlimit(begin["recursion_limit"])
    asked = importlib.import_module(begin["asks"]).asked
    for name in begin["libraries"]:
        importlib.import_module(name)
    sys.path[:] = _own
    for name in begin["modules"]:
        if name.partition(".")[0] in sys.stdlib_module_names:
            importlib.import_module(name)
    for file, lines in begin["sources"].items():
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    sys.meta_path.append(NotHere)
    sys.addaudithook(_notice)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    function = _Function(io.BytesIO(begin["function"])).load()
    while (calls := _received()) is not None:
        _send(_answers(lambda told: asked(function, calls, told), begin["sources"]))


def _answers(ask: Callable[[Callable], dict], sources: dict) -> dict:
    told = lambda error: describe(error, sources.__contains__)
    try:
        found = ask(told)
    except BaseException as error:
        found = {"raised": told(error)}
    return found | {"background": sorted(_background)}


def _notice(event: str, arguments: tuple) -> None:
    if event in _KINDS:
        _background.add(_KINDS[event])


def _received() -> object:
    """What the other side sent; None at its end."""
    head = _in.read(_LENGTH.size)
    return marshal.loads(_in.read(*_LENGTH.unpack(head))) if len(head) == _LENGTH.size else None


def _send(message: object) -> None:
    data = marshal.dumps(message)
    _out.write(_LENGTH.pack(len(data)) + data)
    _out.flush()


_in, _out = sys.stdin.buffer, sys.stdout.buffer
sys.stdout = sys.stderr  # what the function prints is not read
serve()
