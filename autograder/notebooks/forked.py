"""Functions in forked processes: what they leave behind is gone with them, and what they find comes back."""

import contextlib
import io
import multiprocessing
import signal
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

import torch

STOPPED = "(it was stopped)"
RAISED = 1
"""How a process of multiprocessing's ends whose function raised."""

_fork = multiprocessing.get_context("fork")


def in_a_fork(function: Callable[..., Iterable], *arguments: Any) -> list:
    """What ``function`` gives, of strings and numbers: what it leaves in its process, hooks say, is gone with it.

    Raises RuntimeError where it raises or its process ends.
    """
    mine, process = forked(_tell, function, *arguments)
    if (told := heard(mine, process, [STOPPED])) == [STOPPED]:
        raise RuntimeError(f"the process that ran {function.__name__} ended before it was done")
    return told


def _tell(its: Connection, function: Callable[..., Iterable], *arguments: Any) -> None:
    torch.set_num_threads(1)
    its.send(list(function(*arguments)))


def forked(target: Callable, *arguments: Any) -> tuple[Connection, Any]:
    """Where ``target`` will be heard, to which the other end of a pipe is handed first, and its process."""
    mine, its = _fork.Pipe(duplex=False)
    process = _fork.Process(target=target, args=(its, *arguments))
    process.start()
    its.close()
    return mine, process


def heard(mine: Connection, process: Any, stopped: list) -> list:
    """What a process sends, or ``stopped`` where it ended without. Raises RuntimeError for a fault of its exercise, not of its source."""
    with mine:
        try:
            told = mine.recv()
        except EOFError:
            told = stopped
    process.join()
    if process.exitcode == RAISED:
        raise RuntimeError("a trial ended with the traceback above: that is no verdict")
    return told


def end_after(seconds: int) -> None:
    """Of the clock, since who sleeps uses no processor time."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def silence() -> contextlib.AbstractContextManager:
    """What a source says of races, for each seed anew."""
    return contextlib.redirect_stderr(io.StringIO())
