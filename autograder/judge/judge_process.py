"""The process that judges are forked from: it has imported PyTorch, and each exercise, once.

python -m autograder.judge.judge_process <descriptor> <module>:<function that finds an exercise> <processor seconds> <seconds>
"""

import gc
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from autograder.core.exercise import Exercise
from autograder.core.sampler import Sampler
from autograder.judge.messages import (
    MEMORY_BYTES,
    REQUEST_BYTES,
    Broke,
    Case,
    Explain,
    Explained,
    Found,
    Judge,
    Missing,
    Ready,
    to_judge,
)
from autograder.judge.referee import InProcessJudge
from autograder.judge.session import Explanation, JudgingStopped
from autograder.protocol.channel import MAX_FRAME_BYTES, send
from autograder.protocol.event_sink import MAX_EVENT_BYTES
from autograder.protocol.rank_sockets import send_sockets

if TYPE_CHECKING:
    from gpulab.collectives.brokers import RankSockets

T = TypeVar("T")


def _serve(line: socket.socket, find: str, cpu_seconds: float, seconds: float) -> None:
    module, _, function = find.partition(":")
    find_exercise = getattr(importlib.import_module(module), function)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(line, REQUEST_BYTES, 1, socket.MSG_WAITALL)
        if not request:
            return
        seed, _, name = request.decode().strip().partition(" ")
        with Connection(descriptors[0]) as connection:
            if (exercise := _found(connection, find_exercise, name)) and os.fork() == 0:
                line.close()
                judge = InProcessJudge(exercise, Sampler(int(seed)))
                _run_judge(connection, judge, cpu_seconds, seconds)


def _found(connection: Connection, find_exercise: Callable[[str], Exercise], name: str) -> Exercise | None:
    """The exercise, whose chapter is imported before the fork; where it cannot be, the grader is told."""
    try:
        return _find(find_exercise, name)
    except Exception as error:
        why = str(error) if isinstance(error, LookupError) else f"{type(error).__name__}: {error}"
        with suppress(OSError):
            send(connection, Missing(why))
        return None


@cache
def _find(find_exercise: Callable[[str], Exercise], name: str) -> Exercise:
    exercise = find_exercise(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, whatever it shares with us
    return exercise


def _run_judge(connection: Connection, judge: InProcessJudge, cpu_seconds: float, seconds: float) -> None:
    """In the fork for one graded cell. Never returns."""
    within = partial(_within, cpu_seconds, seconds)
    try:
        _bound_memory()
        send(connection, Ready(judge.exercise.outline))
        ahead = within(_drawn, judge)
        while True:
            message = to_judge.decode(connection.recv_bytes(MAX_FRAME_BYTES + 2 * MAX_EVENT_BYTES))
            if isinstance(message, Judge):
                send(connection, within(_judged, judge, message))
                continue
            if isinstance(message, Explain):
                send(connection, within(_explained, judge, message))
                continue
            answer, sockets = ahead
            send(connection, answer)
            if sockets is not None:
                send_sockets(connection, sockets)
            ahead = within(_drawn, judge)  # while the kernel works at this one
    except EOFError:
        pass
    finally:
        os._exit(0)


def _drawn(judge: InProcessJudge) -> "tuple[Case | Broke, RankSockets | None]":
    try:
        return Case(judge.next_case()), judge.sockets
    except JudgingStopped as why:
        return Broke(str(why), why.traceback), None


def _judged(judge: InProcessJudge, message: Judge) -> Found | Broke:
    try:
        return Found(judge.judge(message.data, message.events))
    except JudgingStopped as why:
        return Broke(str(why), why.traceback)


def _explained(judge: InProcessJudge, message: Explain) -> Explained:
    with suppress(Exception):  # evidence is a learner's: of what cannot be read nothing is told
        return Explained(judge.explain(message.lost))
    return Explained(Explanation())


def _within(cpu_seconds: float, seconds: float, work: Callable[..., T], *arguments: Any) -> T:
    """What ``work`` returns; beyond these bounds the process ends."""
    _allow(cpu_seconds, seconds)
    try:
        return work(*arguments)
    finally:
        _allow(0, 0)


def _allow(cpu_seconds: float, seconds: float) -> None:
    """Set both timers, whose unhandled signals end the process. 0: no limit."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = Path("/proc/self/status")
    if status.exists():  # elsewhere no limit of the system's counts what a process holds
        data = next(line for line in status.read_text().split("\n") if line.startswith("VmData:"))
        bytes_now = int(data.split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_now + MEMORY_BYTES,) * 2)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], *map(float, sys.argv[3:]))
