"""Detects work of the learner's code that no instrument observes: threads, processes and subinterpreters."""

import ctypes
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from autograder.runner.plain_python.audited import PROCESS_EVENTS, THREAD_EVENTS, announce_threads
from gpulab.observe.lines import is_learners

_INTERPRETER = "cpython.PyInterpreterState_New"
_first_interpreter, _next_interpreter = (
    ctypes.pythonapi.PyInterpreterState_Head,
    ctypes.pythonapi.PyInterpreterState_Next,
)
_first_interpreter.restype = _next_interpreter.restype = ctypes.c_void_p
_next_interpreter.argtypes = [ctypes.c_void_p]
ANSWER_EVENT, ALLOCATOR = "gpulab.answers", "malloc"
"""What of gpulab answers an exercise says so; every tensor on the virtual card asks the allocator."""
_HEARD = frozenset({*THREAD_EVENTS, *PROCESS_EVENTS, _INTERPRETER, ANSWER_EVENT})
"""Thousands of other events a second pass by."""
# A thread that sleeps on, such as a progress bar's, uses none of it, and one that wakes now and
# then a share of the time; one answer takes more.
IDLE_SECONDS, IDLE_SHARE, MOST_IDLE_SECONDS = 250e-6, 0.03, 10e-3


class BackgroundWorkDetector:
    """Fed by the interpreter's audit events, whose hooks cannot be removed."""

    def __init__(self) -> None:
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._watched: int | None = None
        self._background: list[str] = []
        self._expected: list[str] = []
        self._asks_for_own = False
        sys.addaudithook(self._on_audit_event)

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        """Gives a list of ``thread``, ``process``, ``subinterpreter`` and ``answer``, complete once the block has ended.

        An entry for each that the calling thread starts in the block, for each earlier thread of
        the notebook's own that worked (used processor time) meanwhile, and for a subinterpreter
        that is there: it runs on the calling thread, without its profiler and audit hooks.
        """
        self._watched, self._background = threading.get_ident(), ["subinterpreter"] * (_interpreters() > 1)
        self._expected = []
        # Its own processor time, not the clock's: sleeping buys nobody else a moment.
        before, began = self._seconds_of_others(), time.thread_time()
        try:
            yield self._background
        finally:
            self._watched = None
            idle = _idle_seconds(time.thread_time() - began)
            after = self._seconds_of_others()
            worked = [thread for thread in before if after.get(thread, 0) - before[thread] > idle]
            self._background += ["thread"] * len(worked)

    @contextmanager
    def expect(self, event: str, times: int = 1) -> Iterator[None]:
        """Inside the block the watched thread may start so many processes with ``event``; any other counts as background work."""
        self._expected = [event] * times
        try:
            yield
        finally:
            self._expected = []

    @contextmanager
    def own_answers(self) -> Iterator[None]:
        """Inside the block an answer that gpulab's code has to the question counts, too."""
        self._asks_for_own = True
        try:
            yield
        finally:
            self._asks_for_own = False

    def add(self, background: Iterable[str]) -> None:
        """Background work that the detector of an expected child process has found."""
        self._background += background

    def _seconds_of_others(self) -> dict[int, float]:
        """Processor seconds of every Python thread that no library started, but for this one."""
        libraries = {thread.ident for thread in threading.enumerate() if thread not in self._threads}
        others = sys._current_frames().keys() - libraries - {threading.get_ident()}
        if not hasattr(time, "pthread_getcpuclockid"):
            return {}
        seconds = ((thread, _processor_seconds(thread)) for thread in others)
        return {thread: used for thread, used in seconds if used is not None}

    def _on_audit_event(self, event: str, arguments: tuple) -> None:
        if event not in _HEARD:
            return
        if event in THREAD_EVENTS:
            self._note_thread(getattr(arguments[0], "__self__", None))
        elif event == _INTERPRETER and self._watched == threading.get_ident():
            self._background.append("subinterpreter")
        elif event == ANSWER_EVENT and self._asks_for_own and arguments[0] != ALLOCATOR:
            self._background.append("answer")
        elif event in PROCESS_EVENTS and self._watched == threading.get_ident():
            if event in self._expected:
                self._expected.remove(event)
            else:
                self._background.append("process")

    def _note_thread(self, thread: object) -> None:
        if not _called_by_a_learner():
            return
        if isinstance(thread, threading.Thread):
            self._threads.add(thread)
        if self._watched == threading.get_ident():
            self._background.append("thread")


def _interpreters() -> int:
    count, interpreter = 0, _first_interpreter()
    while interpreter:
        count, interpreter = count + 1, _next_interpreter(interpreter)
    return count


def _processor_seconds(thread: int) -> float | None:
    """None for a thread that has ended since it was listed."""
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread))
    except OSError:
        return None


def _idle_seconds(own_seconds: float) -> float:
    """Processor seconds that another thread may use while the watched one uses ``own_seconds``."""
    return min(IDLE_SECONDS + IDLE_SHARE * own_seconds, MOST_IDLE_SECONDS)


def _called_by_a_learner() -> bool:
    frame = sys._getframe(2)
    while frame is not None and not is_learners(frame):
        frame = frame.f_back
    return frame is not None


announce_threads()
detector = BackgroundWorkDetector()
