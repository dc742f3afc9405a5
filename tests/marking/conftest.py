"""A marking service in a thread, whose marker gives what a test says."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tornado.netutil import bind_sockets

from autograder.client.sent import MAX_BYTES
from autograder.core.layout import ROOT
from autograder.core.marks import Mark, Marks
from autograder.marking.app import app
from autograder.marking.limits import Limits
from autograder.marking.queue import Queue
from autograder.marking.records import Record, Records
from autograder.marking.server import BoundedServer
from autograder.marking.tokens import secret_of, token_of
from autograder.selfcheck.chapters import Chapter

MARKS = Marks((Mark("patchify", 3, 8, ("The elements were copied.",)), Mark("compact", 8, 8)), ("A note.",))
TOLD = "<p>What was found</p>"


class Serving:
    """``address``: without a slash. ``marked``: what the marker was given, in order. ``goes_on``: it waits for that."""

    def __init__(self, folder: Path) -> None:
        self.records, self.secret = Records(folder), secret_of(folder)
        self.marked: list[Record] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.keeps = lambda record: record.keep(MARKS, TOLD)
        self.address = ""

    def token(self, student: str = "ada") -> str:
        return token_of(student, self.secret)

    async def marker(self, record: Record) -> int:
        self.marked.append(record)
        record.run()
        await asyncio.to_thread(self.goes_on.wait, 30)
        self.keeps(record)
        return 1

    @contextmanager
    def running(self, limits: Limits, jobs: int = 1, prefix: str = "") -> Iterator["Serving"]:
        ready, loop = threading.Event(), asyncio.new_event_loop()
        stopped = asyncio.Event()

        async def serve() -> None:
            queue = Queue(self.records, limits, [Chapter(ROOT / "exercises" / "views")], jobs, self.marker)
            server = BoundedServer(app(queue, self.secret), max_body_size=MAX_BYTES)
            sockets = bind_sockets(0, "127.0.0.1")
            server.add_sockets(sockets)
            self.address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}{prefix}"
            ready.set()
            await stopped.wait()
            server.stop()
            await queue.close()
            await server.close_all_connections()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        assert ready.wait(30)
        try:
            yield self
        finally:
            self.goes_on.set()
            loop.call_soon_threadsafe(stopped.set)
            thread.join(30)
            loop.close()


@pytest.fixture
def serving(tmp_path) -> Iterator[Serving]:
    with Serving(tmp_path / "marking").running(Limits(3), prefix="/services/marks") as service:
        yield service


@pytest.fixture(scope="session")
def notebook() -> str:
    """The released notebook of views."""
    import tempfile

    from autograder.authoring.pipeline import write_release

    with tempfile.TemporaryDirectory() as course:
        return write_release(ROOT / "exercises", "views", Path(course)).read_text("utf-8")
