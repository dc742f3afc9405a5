"""The referee's server for one submission: a Unix socket, one open exercise at a time."""

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import msgspec

from autograder.core.unexplained import Unexplained
from autograder.core.verdict import Verdict
from autograder.judge.judge_server import SubprocessJudge, judge_server
from autograder.judge.play_forms import SECONDS, explained_by_play
from autograder.judge.second_opinion import is_the_learners_fault
from autograder.judge.session import Session, background_work_problem, without_doubt
from autograder.misconceptions.told import with_names
from autograder.protocol.channel import (
    MOST_NOTICED,
    Begin,
    Done,
    EventRecord,
    Evidence,
    Inputs,
    Noticed,
    Refused,
    cut,
    receive_at_referee,
    send,
)
from autograder.protocol.rank_sockets import send_sockets

MAX_CONVERSATIONS = 5
MAX_TRACEBACKS = 5


class GradingServer:
    """Listens on a socket in ``folder`` while a submission's notebook runs.

    ``open(exercise)`` before its graded cell is executed, ``close()`` after: only between
    the two is evidence for that exercise taken, and only once. ``incidents`` are sentences
    about messages that an honest notebook never sends, ``broken`` about judges and scenarios that
    failed, by no fault of the learner's; ``tracebacks`` are those of judges, whosever fault it was. ``noticed``: what the
    kernel told of the learner's lines, whatever cell was running.

    ``exercises``: those that will be opened: their judges begin now.
    """

    def __init__(self, folder: Path, exercises: Iterable[str] = ()) -> None:
        self._judge_server = judge_server()
        self._begun = {exercise: self._judge_server.begin(exercise) for exercise in exercises}
        self.address = str(folder / "referee")
        self.incidents: list[str] = []
        self.broken: list[str] = []
        self.tracebacks: list[str] = []
        self.noticed: list[Noticed] = []
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._judge: SubprocessJudge | None = None
        self._unexplained: list[tuple[Session, SubprocessJudge]] = []
        self._has_begun = False
        self._number = 0
        self._closed = False
        self._conversations = threading.BoundedSemaphore(MAX_CONVERSATIONS)
        self._listener = Listener(self.address, family="AF_UNIX")
        # The folder is the kernel's alone; inside, the kernel may be another user.
        os.chmod(self.address, 0o666)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "GradingServer":
        return self

    def __exit__(self, *exception) -> None:
        self._closed = True
        with suppress(OSError):
            Client(self.address, family="AF_UNIX").close()  # wakes the accepting thread
        self._listener.close()
        for judge in (*self._begun.values(), *(judge for _, judge in self._unexplained)):
            judge.close()

    def open(self, exercise: str) -> None:
        """Raises LookupError when there is no such exercise, JudgeServerLost when no judge can be started."""
        begun = self._begun.pop(exercise, None) or self._judge_server.begin(exercise)
        self._judge = self._judge_server.ready(begun)
        session = Session(self._judge.outline, self._judge)
        with self._lock:
            self._session, self._has_begun, self._number = session, False, 0

    def close(self, message: str = "", helped: bool = False, seconds: float = 0) -> Verdict:
        """The verdict. ``message``: what stopped the cell, or empty.

        ``helped``: another process of the notebook used the processor meanwhile. ``seconds``: how long it may take
        to find out whose fault a broken hidden test is; where that stays open it stands in ``broken``.
        """
        with self._lock:
            session, self._session = self._session, None
            session.judge_given()
        if message and not session.finished:
            session.abandon(message)
        if helped and session.exercise.alone:
            session.abandon(background_work_problem("process"))
        self._keep_or_end(session, by_its_answers=not helped)
        for incident in session.incidents:
            self._incident(incident)
        self.tracebacks = (self.tracebacks + session.tracebacks)[:MAX_TRACEBACKS]
        if self._is_the_learners_fault(session, seconds):
            return without_doubt(session.verdict())
        self.broken += session.broken
        return session.verdict()

    def explained(self, seconds: float) -> Iterator[tuple[Verdict, Unexplained | None]]:
        """Of each exercise that lost points by misconceptions that can be named its verdict, with them.

        To be asked for when the kernel is gone: nothing of it, not even the time that it takes, is to be seen from there.
        ``seconds``: how long forms may be played, of all exercises together. Where that is over, the verdict comes as it was,
        with what is needed to play them later.
        """
        until = time.monotonic() + seconds
        while self._unexplained:
            session, judge = self._unexplained.pop(0)
            verdict, why = session.verdict(), session.explanation()
            judge.close()
            named, left = why.named, until - time.monotonic()
            if why.facts and left <= 0:
                yield verdict, Unexplained(judge.seed, why.facts)
            elif why.facts:
                named = explained_by_play(session.exercise, judge.seed, verdict.lost, why.facts, min(left, SECONDS))
            if named:
                yield with_names(verdict, named), None

    def _keep_or_end(self, session: Session, by_its_answers: bool) -> None:
        """A judge stays that may be asked why what it judged cost points: not where something else did."""
        if by_its_answers and session.finished and session.lost_something and not session.broken + session.incidents:
            self._unexplained.append((session, self._judge))
        else:
            self._judge.close()

    def _is_the_learners_fault(self, session: Session, seconds: float) -> bool:
        if not session.broken or session.stopped:
            return False
        return is_the_learners_fault(session.broken, session.exercise.name, self._judge.seed, seconds)

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            if self._closed or not self._conversations.acquire(blocking=False):
                connection.close()
                if self._closed:
                    return
                self._incident("more connections than a notebook needs")
                continue
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: Connection) -> None:
        try:
            self._converse_until_the_end(connection)
        finally:
            self._conversations.release()

    def _converse_until_the_end(self, connection: Connection) -> None:
        with connection, suppress(EOFError, BrokenPipeError, ConnectionResetError):
            while True:
                try:
                    message = receive_at_referee(connection)
                except (OSError, msgspec.DecodeError) as error:
                    self._incident(f"a message that could not be read ({type(error).__name__})")
                    return
                if isinstance(message, EventRecord):
                    self._on_event(message)
                    continue
                if isinstance(message, Noticed):
                    self._notice(message)
                    continue
                with self._lock:
                    answer = self._answer(message)
                    sockets = self._session.sockets if isinstance(answer, Inputs) else None
                send(connection, answer)
                if sockets is not None:
                    send_sockets(connection, sockets)
                if not isinstance(answer, Inputs):
                    return
                self._judge_meanwhile()

    def _judge_meanwhile(self) -> None:
        """What the kernel gave last, while it works at the next case."""
        with self._lock:
            if self._session is not None:
                self._session.judge_given()

    def _on_event(self, message: EventRecord) -> None:
        """An event of another case is dropped: it may come late from a cell that was interrupted."""
        with self._lock:
            if self._session is not None and message.number == self._number:
                self._session.record_event(message.data)

    def _notice(self, message: Noticed) -> None:
        """Cut to what an honest kernel tells: a learner's code can write to the socket, too."""
        if len(self.noticed) < MOST_NOTICED:
            self.noticed.append(cut(message))

    def _answer(self, message: Begin | Evidence) -> msgspec.Struct:
        if self._session is None:
            return self._refuse("no graded cell is running")
        if isinstance(message, Begin):
            if message.exercise != self._session.exercise.name:
                return self._refuse(f"the graded cell is not that of {message.exercise[:80]!r}")
            if self._has_begun:
                return self._refuse("this exercise has begun already")
            self._has_begun = True
            return self._next()
        if self._session.stopped and message.number == self._number:
            return Done()
        if not self._has_begun or self._session.finished or message.number != self._number:
            return self._refuse("evidence for a case that is not open")
        self._session.give(message.data)
        return self._next()

    def _next(self) -> Inputs | Done:
        inputs = self._session.next_case()
        if inputs is None:
            return Done()
        self._number += 1
        sockets = self._session.sockets
        return Inputs(self._number, inputs, 0 if sockets is None else len(sockets.ranks))

    def _refuse(self, why: str) -> Refused:
        self._incident(why)
        return Refused(why)

    def _incident(self, what: str) -> None:
        if what not in self.incidents and len(self.incidents) < 20:
            self.incidents.append(what)
