"""Worker processes of a loader, in a process of the case's own: they end with it, whatever the learner's code made of them."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from autograder.protocol import wire
from autograder.runner.background_work import detector
from autograder.runner.scenario_runner import describe

SECONDS = 15.0
"""Of real time, for a loader that never gives its next batch; an honest one takes a fraction of a second."""
HANGS = "The loader gave no batch for a long time, and was stopped: a worker waits for something, or never ends."
ENDED = "The process that used the loader ended before it was done."


def apart(fn: Callable[[], Any]) -> dict[str, Any]:
    """``{"value": what fn returns}`` in a process forked for it, ``{"raised": ...}`` or ``{"stopped": why}``.

    Nothing that ``fn`` starts is left when it is over: it is the first process of a group, and the group is ended.
    """
    mine, its = multiprocessing.Pipe(duplex=False)
    with detector.expect("os.fork"):
        pid = os.fork()
    if pid == 0:
        _in_the_fork(fn, its)
    its.close()
    try:
        return wire.decode(mine.recv_bytes()) if mine.poll(SECONDS) else {"stopped": HANGS}
    except (EOFError, OSError):
        return {"stopped": ENDED}
    finally:
        mine.close()
        _end(pid)


def _in_the_fork(fn: Callable[[], Any], its: Connection) -> None:
    """Never returns."""
    try:
        os.setpgid(0, 0)
        try:
            said = {"value": fn()}
        except Exception as error:
            said = {"raised": describe(error)}
        its.send_bytes(wire.encode(said))
    finally:
        os._exit(0)


def _end(pid: int) -> None:
    for group in (True, False):
        try:
            (os.killpg if group else os.kill)(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    os.waitpid(pid, 0)
