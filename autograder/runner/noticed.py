"""Tells the grader, as it happens, of what reading a learner's code may have missed: by the interpreter's audit events (PEP 578).

An event counts where a learner's own line brings it about, alone or through Python's own modules: libraries do such things for
everybody. Its hook cannot be removed by Python; what removes it is an event itself.
"""

import linecache
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client
from types import FrameType, ModuleType

from autograder.protocol.channel import MOST_NOTICED, Noticed, cut, send
from autograder.runner.plain_python import audited
from autograder.runner.replaced import replaced
from gpulab.observe.lines import is_learners

_BY_A_LINE = {
    "frames": "sys._getframe sys._current_frames sys._current_exceptions object.__getattr__ gc.get_objects gc.get_referrers "
    "gc.get_referents",
    "dynamic": "exec compile code.__new__ function.__new__ marshal.loads pickle.find_class",
    "system": "ctypes.dlopen ctypes.dlsym ctypes.dlsym/handle ctypes.addressof ctypes.call_function ctypes.cdata "
    "ctypes.cdata/buffer ctypes.string_at ctypes.wstring_at ctypes.PyObj_FromPtr mmap.__new__ sys.settrace sys.setprofile "
    "sys.addaudithook cpython._PySys_ClearAuditHooks cpython.PyInterpreterState_New os.memfd_create",
    "patch": "object.__setattr__",
}
_THROUGH_PYTHON = (
    "open os.rename "
    "_thread.start_new_thread _thread.start_joinable_thread os.fork os.forkpty os.posix_spawn os.exec os.system "
    "subprocess.Popen socket.connect socket.bind"
).split()
"""What a line brings about through ``threading``, ``subprocess`` and their like."""
KINDS = {event: kind for kind, events in _BY_A_LINE.items() for event in events.split()}
KINDS |= dict.fromkeys(_THROUGH_PYTHON, "system")
_INTO_THE_MACHINE = ("/proc/", "/sys/", "/dev/mem", "/dev/kmem")
_OPEN_TO_ALL = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/")
_CODE = (".py", ".pyc", ".so", ".pth")
_PYTHONS_OWN = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}, audited.__file__)
_INSTALLED = ("site-packages", "dist-packages")


class Noticer:
    """One for a process. Silent until :meth:`begin`."""

    def __init__(self) -> None:
        self._tell: Callable[[Noticed], None] | None = None
        self._told: set[tuple[str, str, int]] = set()
        self._inside: set[int] = set()
        """Threads that this hook works for just now: what it does raises events, too."""
        sys.addaudithook(self._on_event)

    def begin(self, tell: Callable[[Noticed], None]) -> None:
        self._tell = tell

    def end(self) -> None:
        self._tell = None

    def look(self) -> None:
        """Whether a part of PyTorch, of gpulab or of the grader is the learner's own by now."""
        for name, code in replaced() if self._tell else ():
            self._note("patch", name, code.co_filename, code.co_firstlineno)

    def remember(self) -> None:
        """How everything stands before any cell runs: looking finds sooner what has changed."""
        for _ in replaced():
            pass

    def _on_event(self, event: str, arguments: tuple) -> None:
        kind = KINDS.get(event)
        if kind is None or self._tell is None or (thread := threading.get_ident()) in self._inside:
            return
        self._inside.add(thread)
        try:
            frame = _responsible(sys._getframe(1), event in _THROUGH_PYTHON)
            # Libraries open thousands of files, and finding out where a path leads asks the system.
            if frame and _ONLY_IF.get(event, lambda *_: True)(*arguments):
                name = f"{event}: {arguments[1]}" if event.startswith("object.") else event
                self._note(kind, name, frame.f_code.co_filename, frame.f_lineno)
        finally:
            self._inside.discard(thread)

    def _note(self, kind: str, name: str, file: str, line: int) -> None:
        if (key := (name, file, line)) in self._told or len(self._told) >= MOST_NOTICED:
            return
        self._told.add(key)
        self._tell(cut(Noticed(kind, name, line, linecache.getline(file, line).strip())))


def _is_of_note(path: object, mode: object, flags: int) -> bool:
    """A file by which a process sees its own memory, or one of code that is about to be written."""
    if not isinstance(path, str):
        return False
    written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
    real = os.path.realpath(path)
    inside = real.startswith(_INTO_THE_MACHINE) and not real.startswith(_OPEN_TO_ALL)
    return inside or bool(written) and path.endswith(_CODE)


def _replaces_code(changed: object, attribute: str, *_: object) -> bool:
    """In place, where :func:`replaced` finds the same objects."""
    return attribute == "__code__" or attribute == "__class__" and isinstance(changed, ModuleType)


_ONLY_IF = {
    "open": _is_of_note,
    "os.rename": lambda old, new, *_: isinstance(new, str) and new.endswith(_CODE),
    "object.__setattr__": _replaces_code,
}


def _responsible(frame: FrameType | None, through_python: bool) -> FrameType | None:
    """The learner's frame that brought an event about, or None where a library did."""
    while through_python and frame is not None and _is_pythons(frame.f_code.co_filename):
        frame = frame.f_back
    return frame if frame is not None and is_learners(frame) else None


def _is_pythons(file: str) -> bool:
    return (
        file.startswith(_PYTHONS_OWN) and not any(folder in file for folder in _INSTALLED) or file.startswith("<frozen")
    )


def begin(address: str) -> None:
    """Tell the grader at ``address`` from now on; nobody where it cannot be reached. Before the first cell runs."""
    with suppress(OSError):
        connection, lock = Client(address, family="AF_UNIX"), threading.Lock()

        def tell(noticed: Noticed) -> None:
            with lock, suppress(OSError):
                send(connection, noticed)

        noticer.begin(tell)


noticer = Noticer()
