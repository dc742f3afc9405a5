"""Judges in subprocesses with limits of time and memory.

A server imports PyTorch once and forks a process for each graded cell. That process draws the
cases, holds the references and judges. Evidence that makes it exceed a limit gets it killed, and the grader loses
nothing but the exercise.

    python -m autograder.judge.judge_server <descriptor> <module>:<function that finds an exercise> <processor seconds> <seconds>
"""

import atexit
import gc
import importlib
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from autograder.core.layout import ROOT
from autograder.core.sampler import Sampler
from autograder.judge.referee import CaseResult, InProcessJudge, JudgingStopped, OpenCase
from autograder.protocol.channel import MAX_FRAME_BYTES, send
from autograder.protocol.event_sink import MAX_EVENT_BYTES
from autograder.protocol.rank_sockets import receive_sockets, send_sockets

if TYPE_CHECKING:
    from gpulab.collectives.brokers import RankSockets

T = TypeVar("T")
CPU_SECONDS, SECONDS = 10, 60
"""For each case: of processor time, which a busy machine does not stretch, and of wall-clock time."""
MEMORY_BYTES = 1 << 30
"""Beyond what the process has when it begins."""
_FIND = "autograder.core.exercise:find"
_MAX_NAME_BYTES = 1000
_LIMIT = f"it took more than {CPU_SECONDS} s or {MEMORY_BYTES >> 30} GiB of memory, or it crashed"


class JudgeServerLost(RuntimeError):
    """No judge can be started; the submission is not the cause."""


class Ready(msgspec.Struct, tag="ready"):
    pass


class Next(msgspec.Struct, tag="next"):
    """Open a case."""


class Judge(msgspec.Struct, tag="judge"):
    """Judge the open case by its evidence and its events."""

    data: bytes
    events: list[bytes]


class Case(msgspec.Struct, tag="case"):
    opened: OpenCase | None


class Found(msgspec.Struct, tag="found"):
    result: CaseResult


class Broke(msgspec.Struct, tag="broke"):
    """The exercise's own code ended the hidden tests."""

    why: str
    traceback: str


_to_judge = msgspec.msgpack.Decoder(Next | Judge)
_from_judge = msgspec.msgpack.Decoder(Ready | Case | Found | Broke)


class JudgeServer:
    """Starts the server at once, without waiting for it, and again when it has died.

    ``find``: ``module:function``, which returns the exercise of a name.
    """

    def __init__(self, find: str = _FIND, cpu_seconds: float = CPU_SECONDS, seconds: float = SECONDS) -> None:
        self._arguments = [find, str(cpu_seconds), str(seconds)]
        self._lock = threading.Lock()
        self._start()
        atexit.register(self.close)

    def judge_for(self, exercise: str, seed: int | None = None) -> "SubprocessJudge":
        """A judge forked for one graded cell, whose cases are drawn with the seed, or one of its own. Raises JudgeServerLost."""
        seed = secrets.randbits(63) if seed is None else seed
        with self._lock:
            for _ in range(2):
                try:
                    return SubprocessJudge(self._call_for(f"{seed} {exercise}"))
                except (OSError, EOFError):
                    self.close()
                    self._start()
        raise JudgeServerLost(f"no judge of {exercise} could be started")

    def close(self) -> None:
        self._line.close()
        self._process.kill()
        self._process.wait()

    def _call_for(self, drawn: str) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._line, [drawn.encode()[:_MAX_NAME_BYTES]], [theirs.fileno()])
        connection = Connection(ours.detach())
        _from_judge.decode(connection.recv_bytes())
        return connection

    def _start(self) -> None:
        # A stream, since macOS has no packets in order: each call waits for its answer before the next.
        self._line, theirs = socket.socketpair()
        with theirs:
            run = [sys.executable, "-P", "-m", "autograder.judge.judge_server", str(theirs.fileno()), *self._arguments]
            self._process = subprocess.Popen(
                run,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the grader alone
            )


class SubprocessJudge:
    """Judges one graded cell in a process of the judge server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.sockets: RankSockets | None = None

    def next_case(self) -> OpenCase | None:
        opened = self._ask(Next()).opened
        if opened is not None and opened.ranks:
            self.sockets = self._talk(lambda connection: receive_sockets(connection, opened.ranks))
        return opened

    def judge(self, data: bytes, events: list[bytes]) -> CaseResult:
        return self._ask(Judge(data, events)).result

    def close(self) -> None:
        self._connection.close()

    def _ask(self, message: msgspec.Struct) -> Case | Found:
        self._talk(lambda connection: send(connection, message))
        answer = self._talk(lambda connection: _from_judge.decode(connection.recv_bytes()))
        if isinstance(answer, Broke):
            raise JudgingStopped(answer.why, answer.traceback)
        return answer

    def _talk(self, talk: Callable[[Connection], T]) -> T:
        """Raises JudgingStopped where the process has ended: it exceeded a limit."""
        try:
            return talk(self._connection)
        except (OSError, EOFError):
            raise JudgingStopped(_LIMIT) from None


_server: JudgeServer | None = None


def judge_server() -> JudgeServer:
    """The server of this process, started when first asked for."""
    global _server
    if _server is None:
        _server = JudgeServer()
    return _server


# The server


def _serve(line: socket.socket, find: str, cpu_seconds: float, seconds: float) -> None:
    module, _, function = find.partition(":")
    find_exercise = getattr(importlib.import_module(module), function)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    imported: set[str] = set()
    while True:
        drawn, descriptors, _, _ = socket.recv_fds(line, _MAX_NAME_BYTES, 1)
        if not drawn:
            return
        seed, _, name = drawn.decode().partition(" ")
        exercise = find_exercise(name)  # its chapter is imported before the fork
        if name not in imported:
            imported.add(name)
            gc.collect()
            gc.freeze()  # a collection in a fork would write to, and so copy, whatever it shares with us
        if os.fork() == 0:
            line.close()
            _run_judge(Connection(descriptors[0]), InProcessJudge(exercise, Sampler(int(seed))), cpu_seconds, seconds)
        os.close(descriptors[0])


def _run_judge(connection: Connection, judge: InProcessJudge, cpu_seconds: float, seconds: float) -> None:
    """In the fork for one graded cell. Never returns."""
    try:
        _bound_memory()
        send(connection, Ready())
        while True:
            message = _to_judge.decode(connection.recv_bytes(MAX_FRAME_BYTES + 2 * MAX_EVENT_BYTES))
            _allow(cpu_seconds, seconds)
            answer = _answer(judge, message)
            _allow(0, 0)
            send(connection, answer)
            if isinstance(answer, Case) and judge.sockets is not None:
                send_sockets(connection, judge.sockets)
    except EOFError:
        pass
    finally:
        os._exit(0)


def _answer(judge: InProcessJudge, message: Next | Judge) -> Case | Found | Broke:
    try:
        if isinstance(message, Next):
            return Case(judge.next_case())
        return Found(judge.judge(message.data, message.events))
    except JudgingStopped as why:
        return Broke(str(why), why.traceback)


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
