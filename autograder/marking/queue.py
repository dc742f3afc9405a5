"""Takes notebooks and has them marked, a few at a time, each in a process of its own."""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from autograder.core.layout import ROOT
from autograder.core.printable import say
from autograder.intake.released import Released
from autograder.marking.limits import Limits
from autograder.marking.records import LOG, TIME, Record, Records
from autograder.selfcheck.chapters import Chapter

NO_CHAPTER = (
    "The notebook holds the exercises of no chapter that is marked here: begin with the one that your course gave you, and keep "
    "its cells."
)
NO_NOTEBOOK = "What was sent is no Jupyter notebook: save it in JupyterLab and send its .ipynb file."
SECONDS = 900
"""Of a marking: more than its watchdog allows."""
Marker = Callable[[Record], Awaitable[int]]
"""Marks the notebook of a record and keeps what it found there; what it returns is told where it kept nothing."""


class NotTaken(Exception):
    """Says why, and as an HTTP status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class Ticket:
    """By what a learner asks for the marks of what was sent."""

    student: str
    chapter: str
    digest: str


class Queue:
    """One notebook of each learner at a time. ``jobs``: how many are marked at once, by ``marker``."""

    def __init__(
        self, records: Records, limits: Limits, chapters: list[Chapter], jobs: int, marker: Marker | None = None
    ) -> None:
        self.records, self.limits = records, limits
        self._own = {chapter.name: Released(chapter.released()).its_own for chapter in chapters}
        self._places, self._reads, self._marker = asyncio.Semaphore(jobs), asyncio.Lock(), marker or in_a_process
        self._waiting: dict[Ticket, asyncio.Task] = {}
        self._begun: set[Ticket] = set()
        self.sending: set[str] = set()
        """Who is sending a notebook."""

    async def take(self, student: str, raw: bytes) -> Ticket:
        """Raises NotTaken. What was run already, or is waiting, is not marked again."""
        async with self._reads:  # one at a time: a few MB of brackets take a hundred times as much as lists
            chapter = await asyncio.to_thread(self._chapter, raw)
        ticket = Ticket(student, chapter, hashlib.sha256(raw).hexdigest()[:16])
        if ticket in self._waiting or self.record(ticket).was_run:
            return ticket
        if any(one.student == student for one in self._waiting):
            raise NotTaken(409, "Another notebook of yours is being marked: send this one once that is done.")
        self._allow(ticket)
        self.record(ticket).begin(raw)
        self._waiting[ticket] = asyncio.create_task(self._mark(ticket))
        return ticket

    def record(self, ticket: Ticket) -> Record:
        return self.records.of(ticket.student, ticket.chapter, ticket.digest)

    def ahead(self, ticket: Ticket) -> int | None:
        """How many came before it and are not done, 0 while it is marked; None where it is done or unknown."""
        order = list(self._waiting)
        return order.index(ticket) * (ticket not in self._begun) if ticket in order else None

    def tries(self, student: str, chapter: str) -> dict[str, int]:
        return {"used": self.records.used(student, chapter), "of": self.limits.of(chapter)}

    async def close(self) -> None:
        """What is being marked ends, and costs no try."""
        for task in self._waiting.values():
            task.cancel()
        await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    def _allow(self, ticket: Ticket) -> None:
        allowed = self.limits.of(ticket.chapter)
        if not allowed:
            raise NotTaken(403, f"`{ticket.chapter}` is not marked here: your grade comes from what you hand in.")
        if self.records.used(ticket.student, ticket.chapter) >= allowed:
            raise NotTaken(
                403, f"No tries are left at `{ticket.chapter}`, of {allowed}: your grade comes from what you hand in."
            )

    def _chapter(self, raw: bytes) -> str:
        """The one most of whose cells are there, by what nbgrader wrote in them. All else is read by the process that marks."""
        found = _grade_ids(raw)
        best = max(self._own, key=lambda chapter: len(self._own[chapter] & found))
        if not self._own[best] & found:
            raise NotTaken(422, NO_CHAPTER)
        return best

    async def _mark(self, ticket: Ticket) -> None:
        record = self.record(ticket)
        try:
            async with self._places:
                self._begun.add(ticket)
                ended = await self._marker(record)
            self._tell(ticket, ended)
        except asyncio.CancelledError:
            record.give_back()
            raise
        finally:
            record.tidy()
            self._waiting.pop(ticket, None)
            self._begun.discard(ticket)

    def _tell(self, ticket: Ticket, ended: int) -> None:
        record, tries = self.record(ticket), self.tries(ticket.student, ticket.chapter)
        found = record.said() or f"ended with status {ended} and no marks, see {record.folder / LOG}"
        say(f"{now()}  {ticket.student}  {ticket.chapter}: {found}; {tries['used']} of {tries['of']} tries used")


def now() -> str:
    return datetime.now(UTC).strftime(TIME)


def _grade_ids(raw: bytes) -> set[str]:
    """Raises NotTaken."""
    try:
        cells = [cell["metadata"].get("nbgrader", {}) for cell in json.loads(raw)["cells"]]
        return {cell["grade_id"] for cell in cells if "grade_id" in cell}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NotTaken(422, NO_NOTEBOOK) from None


async def in_a_process(record: Record) -> int:
    """Its exit status. Its watchdog ends it where it hangs, and where that hangs, this does."""
    with open(record.folder / LOG, "wb") as log:
        command = (sys.executable, "-m", "autograder.marking.one", str(record.folder))
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            async with asyncio.timeout(SECONDS):
                return await process.wait()
        except TimeoutError:
            return -signal.SIGKILL
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
