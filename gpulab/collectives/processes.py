"""Starts the ranks, watches over them, and ends them: no process is left behind.

Real clocks only: a virtual card replaces ``time.monotonic`` for the learner's files, not for these.
"""

import os
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpulab.collectives.broker.messages import at, by_rank
from gpulab.collectives.brokers import RankSockets
from gpulab.collectives.errors import Problem
from gpulab.collectives.journal import Entry
from gpulab.collectives.rank.life import SHOW_WHERE, Task, live
from gpulab.collectives.stacks import learners_line_in
from gpulab.collectives.wire import FramedSocket, Message
from gpulab.observe.records import SourceLine

_TO_END_BY_ITSELF_S = 1.0
_FOR_STACKS_S = 0.2
_TICK_S = 0.02


@dataclass
class Outcome:
    """What came back. ``results``, ``seen``: packed, by rank, of those that returned."""

    results: dict[int, bytearray] = field(default_factory=dict)
    seen: dict[int, bytearray] = field(default_factory=dict)
    journal: list[Entry] = field(default_factory=list)
    problem: Problem | None = None


class Ranks:
    """The processes of one run."""

    def __init__(self, task: Task, ends: RankSockets) -> None:
        self.pids: dict[int, int] = {}
        self.statuses: dict[int, int] = {}
        self._stacks: dict[int, int] = {}
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        for rank, sock in zip(task.ranks, ends.ranks, strict=True):
            self._stacks[rank], theirs = os.pipe()
            pid = _fork()
            if pid == 0:
                live(task, rank, sock, theirs, parent)
            os.close(theirs)
            self.pids[rank] = pid

    def newly_ended(self) -> Iterator[tuple[int, str]]:
        """(rank, how) of each that was not known to have ended."""
        for rank, pid in self.pids.items():
            if rank not in self.statuses:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    self.statuses[rank] = status
                    yield rank, _how(status)

    def watched(self) -> list[int]:
        """Descriptors that become readable when a rank ends, where the system has such."""
        return [os.pidfd_open(pid) for pid in self.pids.values()] if hasattr(os, "pidfd_open") else []

    def where_they_are(self) -> dict[int, SourceLine | None]:
        """The learner's line at which each rank that still runs is: C code answers, whatever Python does."""
        running = [rank for rank in self.pids if rank not in self.statuses]
        for rank in running:
            _send(self.pids[rank], SHOW_WHERE)
        time.sleep(_FOR_STACKS_S)
        return {rank: learners_line_in(_all_of(self._stacks[rank])) for rank in running}

    def end(self, grace_s: float) -> None:
        """Let them leave for ``grace_s``, then kill each with all that is in its session."""
        until = time.monotonic() + grace_s
        while time.monotonic() < until and len(self.statuses) < len(self.pids):
            if not list(self.newly_ended()):
                time.sleep(0.001)
        for rank, pid in self.pids.items():
            if rank not in self.statuses:
                _send(pid, signal.SIGKILL)
                _, self.statuses[rank] = os.waitpid(pid, 0)
            _kill_session(pid)
        for stack in self._stacks.values():
            os.close(stack)


def supervise(task: Task, ends: RankSockets, timeout_s: float, show: Callable[[int, str], None]) -> Outcome:
    """Run the ranks to their end, or to the first problem, or until ``timeout_s``.

    show: is given each line that a rank prints.
    """
    until = time.monotonic() + timeout_s
    outcome = Outcome()
    framed, ranks = FramedSocket(ends.supervisor), Ranks(task, ends)
    grace = 0.0
    try:
        for sock in ends.ranks:
            sock.close()
        with _selector(framed, ranks) as selector:
            _listen(outcome, task, framed, ranks, selector, until, show)
        if outcome.problem is None and _unfinished(outcome, task):
            outcome.problem = _late(ranks, timeout_s)
        grace = _TO_END_BY_ITSELF_S if outcome.problem is None or outcome.problem.kind != "late" else 0.0
    finally:
        ranks.end(grace)
        framed.close()
    return outcome


def _listen(outcome: Outcome, task: Task, framed: FramedSocket, ranks: Ranks, selector, until: float, show) -> None:
    while _unfinished(outcome, task) and outcome.problem is None:
        left = until - time.monotonic()
        if left <= 0:
            return
        selector.select(min(left, _TICK_S if not selector.sees_ends else left))
        for rank, how in ranks.newly_ended():
            framed.put({"rank": rank, "how": how})
        framed.send()
        for message in framed.messages():
            _take(outcome, message, show)
        if framed.over and outcome.problem is None:
            outcome.problem = Problem("protocol", "the broker is gone: start the ranks again.")


def _unfinished(outcome: Outcome, task: Task) -> bool:
    return len(outcome.results) < len(task.ranks)


def _take(outcome: Outcome, message: Message, show: Callable[[int, str], None]) -> None:
    meta, payload = message
    do = meta["do"]
    if do == "print":
        show(meta["rank"], payload.decode("utf-8", "replace"))
    elif do == "result":
        outcome.results[meta["rank"]] = payload
    elif do == "seen":
        outcome.seen[meta["rank"]] = payload
    elif do == "entry":
        outcome.journal.append(Entry.from_dict(meta["entry"]))
    elif do == "problem":
        outcome.problem = Problem.from_dict(meta["problem"])


class _Selector(selectors.DefaultSelector):
    sees_ends = False


@contextmanager
def _selector(framed: FramedSocket, ranks: Ranks) -> Iterator[_Selector]:
    ends = ranks.watched()
    try:
        with _Selector() as selector:
            selector.sees_ends = bool(ends)
            for end in (framed, *ends):
                selector.register(end, selectors.EVENT_READ)
            yield selector
    finally:
        for end in ends:
            os.close(end)


def _late(ranks: Ranks, timeout_s: float) -> Problem:
    where = ranks.where_they_are()
    said = by_rank("is", ((rank, at(line).lstrip() or "in no line of yours") for rank, line in where.items()))
    text = (
        f"the ranks did not finish within {timeout_s:g} s: {said}. A rank that is slow needs a longer timeout_s; "
        "one that loops or waits for something outside the ranks must come to an end."
    )
    return Problem("late", text, tuple(where), tuple(where.values()))


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"left with exit status {os.WEXITSTATUS(status)} and did not return"


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of threads; a rank takes none of the parent's locks that a thread could hold for good.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _send(pid: int, which: int) -> None:
    try:
        os.kill(pid, which)
    except ProcessLookupError:
        pass


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _all_of(descriptor: int) -> str:
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1 << 16).decode(errors="replace")
    except BlockingIOError:
        return ""
