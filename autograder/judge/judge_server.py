"""Judges in subprocesses with limits of time and memory.

A server (:mod:`autograder.judge.judge_process`) imports PyTorch once and forks a process for each graded cell. That process
draws the cases, holds the references and judges. Evidence that makes it exceed a limit gets it killed, and the grader, which
has no PyTorch itself, loses nothing but the exercise.
"""

import atexit
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, TypeVar

import msgspec

from autograder.core.exercise import Outline
from autograder.core.layout import ROOT
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
    Next,
    from_judge,
)
from autograder.judge.session import CaseResult, Explanation, JudgingStopped, OpenCase
from autograder.protocol.channel import send
from autograder.protocol.rank_sockets import receive_sockets

if TYPE_CHECKING:
    from gpulab.collectives.brokers import RankSockets

T = TypeVar("T")
CPU_SECONDS, SECONDS = 10, 60
"""For each case: of processor time, which a busy machine does not stretch, and of wall-clock time."""
_PROCESS = "autograder.judge.judge_process"
_FIND = "autograder.core.exercise:find"
_LIMIT = f"it took more than {CPU_SECONDS} s or {MEMORY_BYTES >> 30} GiB of memory, or it crashed"


class JudgeServerLost(RuntimeError):
    """No judge can be started; the submission is not the cause."""


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
        """A judge forked for one graded cell, whose cases are drawn with the seed, or one of its own.

        Raises LookupError when there is no such exercise, JudgeServerLost.
        """
        return self.ready(self.begin(exercise, seed))

    def begin(self, exercise: str, seed: int | None = None) -> "SubprocessJudge":
        """As :meth:`judge_for`, without waiting for it: it draws its first case meanwhile. See :meth:`ready`."""
        seed = secrets.randbits(63) if seed is None else seed
        ours, theirs = socket.socketpair()
        with self._lock, theirs, suppress(OSError):  # the server has ended: that shows when the judge is to be ready
            socket.send_fds(self._line, [_request(seed, exercise)], [theirs.fileno()])
        return SubprocessJudge(Connection(ours.detach()), exercise, seed, self._process)

    def ready(self, judge: "SubprocessJudge") -> "SubprocessJudge":
        """The judge, once it can be asked; another of the same cases where its server has died. Raises as :meth:`judge_for`."""
        for _ in range(2):
            try:
                judge.wait()
                return judge
            except (OSError, EOFError):
                judge.close()
                self._start_again(judge.server)
                judge = self.begin(judge.exercise, judge.seed)
        judge.close()
        raise JudgeServerLost(f"no judge of {judge.exercise} could be started")

    def _start_again(self, failed: subprocess.Popen) -> None:
        """Unless that has been done: several judges may have waited for a server that died."""
        with self._lock:
            if failed is self._process:
                self.close()
                self._start()

    def close(self) -> None:
        self._line.close()
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        # A stream, since macOS has no packets in order: requests are all of one length.
        self._line, theirs = socket.socketpair()
        with theirs:
            run = [sys.executable, "-P", "-m", _PROCESS, str(theirs.fileno()), *self._arguments]
            self._process = subprocess.Popen(
                run,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the grader alone
            )


def _request(seed: int, exercise: str) -> bytes:
    """Raises LookupError for a name that is longer than any exercise's."""
    request = f"{seed} {exercise}".encode()
    if len(request) > REQUEST_BYTES:
        raise LookupError(f"no exercise {exercise[:40]!r}...")
    return request.ljust(REQUEST_BYTES)


class SubprocessJudge:
    """Judges one graded cell in a process forked by ``server``. ``outline``: of its exercise, once :meth:`wait` has returned."""

    outline: Outline

    def __init__(self, connection: Connection, exercise: str, seed: int, server: subprocess.Popen) -> None:
        self._connection = connection
        self.exercise, self.seed, self.server = exercise, seed, server
        self.sockets: RankSockets | None = None

    def wait(self) -> None:
        """Until it can be asked. Raises LookupError when there is no such exercise; OSError or EOFError when it has ended."""
        answer = from_judge.decode(self._connection.recv_bytes())
        if isinstance(answer, Missing):
            self.close()
            raise LookupError(answer.why)
        self.outline = answer.outline

    def next_case(self) -> OpenCase | None:
        opened = self._ask(Next()).opened
        if opened is not None and opened.ranks:
            self.sockets = self._talk(lambda connection: receive_sockets(connection, opened.ranks))
        return opened

    def judge(self, data: bytes, events: list[bytes]) -> CaseResult:
        return self._ask(Judge(data, events)).result

    def explain(self, lost: list[str]) -> Explanation:
        """Nothing where the process has ended: it is no grade."""
        with suppress(JudgingStopped):
            return self._ask(Explain(lost)).why
        return Explanation()

    def close(self) -> None:
        self._connection.close()

    def _ask(self, message: msgspec.Struct) -> Case | Found | Explained:
        self._talk(lambda connection: send(connection, message))
        answer = self._talk(lambda connection: from_judge.decode(connection.recv_bytes()))
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
