"""An interpreter without libraries beside the learner's kernel, for a function that is to be plain Python.

The function goes there by value (cloudpickle, as Dask and Spark send functions): with the helpers and constants that
it names, as they are now. What it names of a library is a stand-in there, which raises when it is used.
"""

import functools
import importlib.util
import io
import linecache
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from autograder.core.layout import ROOT
from autograder.runner.background_work import detector
from autograder.runner.plain_python.frames import receive, send
from gpulab.observe.lines import is_learners_file

_SERVE = Path(__file__).parent / "plain_python" / "serve.py"
ASKS = "autograder.protocol.asked"
_OURS = ("autograder", "exercises", "gpulab")
_ENDED = {
    "type": "SystemExit",
    "kinds": ["SystemExit"],
    "message": "it ended the interpreter that it ran in",
    "line": "",
}


class Interpreter:
    """Answers calls of one function. One at a time is open in a process: see :func:`interpreter_for`."""

    def __init__(self, function: Callable, libraries: tuple[str, ...] = (), asks: str = ASKS) -> None:
        """``libraries``: those that are there all the same; ``asks``: the module whose ``asked`` calls the function.

        Raises what pickling raises, for a function that holds an open file, say.
        """
        self._function, self._how, self._owner = function, (libraries, asks), os.getpid()
        begin = _begin(function, libraries) | {"asks": asks}
        folders = (ROOT, *(_folder_of(name) for name in ("cloudpickle", *libraries)))
        with detector.expect("subprocess.Popen"):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", *map(str, (_SERVE, *folders))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt is the kernel's, and what the function starts ends with it
            )
        send(self._process.stdin, begin)

    def asked(self, calls: str) -> dict[str, Any]:
        """See :func:`autograder.protocol.asked.asked`."""
        try:
            send(self._process.stdin, calls)
            found = receive(self._process.stdout)
        except (OSError, ValueError, EOFError, TypeError):
            self.close()
            return {"raised": _ENDED}
        except BaseException:  # an interrupt: the function may run on for ever
            self.close()
            raise
        detector.add(found.pop("background"))
        return found

    def is_of(self, function: Callable, libraries: tuple[str, ...], asks: str) -> bool:
        return self._function is function and self._how == (libraries, asks)

    @property
    def is_open(self) -> bool:
        """Not in a process that was forked from the one that opened it, with which it would share the pipes."""
        return self._owner == os.getpid() and self._process.poll() is None

    def close(self) -> None:
        if self._owner == os.getpid():
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:  # what was written can no longer be sent
                pass


_open: Interpreter | None = None


def interpreter_for(function: Callable, libraries: tuple[str, ...] = (), asks: str = ASKS) -> Interpreter:
    """The one that is open where it is this function's, else a new one in its place."""
    global _open
    if _open is None or not _open.is_of(function, libraries, asks) or not _open.is_open:
        close()
        _open = Interpreter(function, libraries, asks)
    return _open


def close() -> None:
    """End the one that is open: a process that goes on beside the kernel looks like a learner's."""
    global _open
    if _open is not None:
        _open.close()
    _open = None


def _folder_of(library: str) -> Path:
    """The folder that it is imported from."""
    return Path(importlib.util.find_spec(library).origin).parents[1]


def _begin(function: Callable, libraries: tuple[str, ...]) -> dict[str, Any]:
    pickled = io.BytesIO()
    pickler = _ByValue(pickled, libraries)
    pickler.dump(function)
    sources = {file: entry[2] for file, entry in linecache.cache.items() if len(entry) == 4 and is_learners_file(file)}
    return {
        "function": pickled.getvalue(),
        "libraries": [
            name for name in libraries if name.encode() in pickled.getvalue()
        ],  # to import PyTorch takes a second
        "modules": sorted(pickler.modules | _imported_in(sources)),
        "sources": sources,
        "recursion_limit": sys.getrecursionlimit(),
    }


def _imported_in(sources: dict[str, list[str]]) -> set[str]:
    """Python's own modules that the notebook imports anywhere, in a function's body too."""
    found = re.findall(
        r"^\s*(?:import|from)\s+(\w+)", "\n".join(line for lines in sources.values() for line in lines), re.M
    )
    return set(found) & sys.stdlib_module_names


class _ByValue(cloudpickle.Pickler):
    """``modules``: those of Python's own to which what was pickled refers."""

    def __init__(self, file: io.BytesIO, libraries: tuple[str, ...]) -> None:
        super().__init__(file)
        self._there = ("cloudpickle", *libraries)
        self.modules: set[str] = set()

    def persistent_id(self, value: object) -> str | None:
        """The name of what is a library's: it stays here."""
        module, name = _home(value)
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names and top != "__main__":
            self.modules.add(module)
        elif top not in self._there and _is_library(top):
            return name
        return None

    def reducer_override(self, value: object) -> object:
        if isinstance(value, functools._lru_cache_wrapper):
            settings = value.cache_parameters()
            return type(value), (value.__wrapped__, settings["maxsize"], settings["typed"], functools._CacheInfo)
        module = sys.modules.get(_home(value)[0])
        if module is not None and _is_beside(module):
            cloudpickle.register_pickle_by_value(module)
        return super().reducer_override(value)


def _home(value: object) -> tuple[str, str]:
    """The module that a value is from, and the value's name: a module's own, a function's or a class's, or its class's."""
    if isinstance(value, ModuleType):
        return value.__name__, value.__name__
    named = value if isinstance(value, type) or callable(value) and hasattr(value, "__qualname__") else type(value)
    module, name = getattr(named, "__module__", None), getattr(named, "__qualname__", "")
    return (module, f"{module}.{name}") if isinstance(module, str) else ("", "")


@functools.cache
def _is_library(top: str) -> bool:
    """Whether the top-level module of that name is neither Python's nor a file beside the notebook."""
    module = sys.modules.get(top)
    return top not in (*sys.stdlib_module_names, "__main__") and module is not None and not _is_beside(module)


def _is_beside(module: ModuleType) -> bool:
    """Whether it was handed in beside the notebook, in the kernel's folder."""
    file = getattr(module, "__file__", None)
    own = module.__name__.partition(".")[0] not in (*_OURS, "__main__")
    return own and file is not None and Path(file).is_relative_to(Path.cwd()) and "site-packages" not in file
