"""Takes notebooks and has them marked, a few at a time, each in a process of its own."""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.core.layout import ROOT
from autograder.core.printable import say
from autograder.intake.notebook_file import read_bytes
from autograder.intake.refused import NotGradable
from autograder.marking.limits import Limits
from autograder.marking.records import LOG, Record, Records
from autograder.selfcheck.chapters import Chapter
from autograder.selfcheck.reading import CannotMark, chapter_of

NAME = "your notebook"
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
        self._chapters, self._places, self._marker = chapters, asyncio.Semaphore(jobs), marker or in_a_process
        self._waiting: dict[Ticket, asyncio.Task] = {}
        self._busy: set[str] = set()

    async def take(self, student: str, raw: bytes) -> Ticket:
        """Raises NotTaken. What was marked already, or is being marked, is not marked again."""
        ticket = Ticket(student, await self._chapter(raw), hashlib.sha256(raw).hexdigest()[:16])
        if ticket in self._waiting or "marks" in (self.record(ticket).result() or {}):
            return ticket
        if student in self._busy:
            raise NotTaken(409, "Another notebook of yours is being marked: send this one once that is done.")
        self._allow(ticket)
        self.record(ticket).begin(raw)
        self._busy.add(student)
        self._waiting[ticket] = asyncio.create_task(self._mark(ticket))
        return ticket

    def record(self, ticket: Ticket) -> Record:
        return self.records.of(ticket.student, ticket.chapter, ticket.digest)

    def ahead(self, ticket: Ticket) -> int | None:
        """How many are marked or wait before it; None where it is not waiting."""
        order = list(self._waiting)
        return order.index(ticket) if ticket in order else None

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
                403, f"Your {allowed} tries at `{ticket.chapter}` are used: your grade comes from what you hand in."
            )

    async def _chapter(self, raw: bytes) -> str:
        """In a thread: a large file takes a while to read."""
        try:
            return await asyncio.to_thread(lambda: chapter_of(read_bytes(Path(NAME), NAME, raw), self._chapters).name)
        except (CannotMark, NotGradable) as why:
            raise NotTaken(422, str(why)) from None

    async def _mark(self, ticket: Ticket) -> None:
        try:
            async with self._places:
                ended = await self._marker(self.record(ticket))
            if self.record(ticket).result() is None:
                where = self.record(ticket).folder / LOG
                say(f"{ticket.student}, {ticket.chapter}: marking ended with {ended} and no result: {where}")
        finally:
            self._waiting.pop(ticket, None)
            self._busy.discard(ticket.student)


async def in_a_process(record: Record) -> int:
    """Its exit status. Its watchdog ends it where it hangs."""
    with open(record.folder / LOG, "wb") as log:
        command = (sys.executable, "-m", "autograder.marking.one", str(record.folder))
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return await process.wait()
        except asyncio.CancelledError:
            os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
            raise
