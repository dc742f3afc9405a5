"""The marking service over HTTP, as :mod:`autograder.client.service` speaks to it. Whatever stands before its paths is a proxy's.

``POST notebooks``: a notebook as JSON; 202 with the path to ask for its marks. ``GET marks/CHAPTER/DIGEST``: 202 while they are
not there, with how many are before it; 200 with marks and page. Errors are ``{"error": sentence}``.
"""

import json
from contextlib import suppress

from tornado.web import Application, RequestHandler, stream_request_body

from autograder.marking.queue import NotTaken, Queue, Ticket
from autograder.marking.tokens import student_of

UNKNOWN = "The service does not know this token. Copy it again from your instructor's message: --new-token asks for it."


class _Known(RequestHandler):
    """Of whoever has a learner's token."""

    queue: Queue
    secret: bytes

    def initialize(self, queue: Queue, secret: bytes) -> None:
        self.queue, self.secret = queue, secret

    def set_default_headers(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def student(self) -> str:
        """Raises NotTaken."""
        kind, _, token = self.request.headers.get("Authorization", "").partition(" ")
        student = student_of(token.strip(), self.secret) if kind.lower() == "bearer" else None
        if student is None:
            raise NotTaken(401, UNKNOWN)
        return student

    def write_error(self, status_code: int, **about) -> None:
        problem = about.get("exc_info", (None, None, None))[1]
        if isinstance(problem, NotTaken):
            self.set_status(problem.status)
            self.finish({"error": str(problem)})
        else:
            self.finish({"error": f"The service answers with HTTP {status_code}: tell your instructor."})

    def log_exception(self, kind, problem, trace) -> None:
        if not isinstance(problem, NotTaken):
            super().log_exception(kind, problem, trace)


@stream_request_body
class Notebooks(_Known):
    """What nobody known sends is read to its end, or they would not read the answer; and is not kept."""

    def prepare(self) -> None:
        self._raw, self._sender = bytearray(), ""
        with suppress(NotTaken):
            self._sender = self.student()

    def data_received(self, chunk: bytes) -> None:
        if self._sender:
            self._raw += chunk

    async def post(self) -> None:
        ticket = await self.queue.take(self.student(), bytes(self._raw))
        self.set_status(202)
        tries = self.queue.tries(ticket.student, ticket.chapter)
        self.write({"ask": f"marks/{ticket.chapter}/{ticket.digest}", "chapter": ticket.chapter, **tries})


class OfOne(_Known):
    def get(self, chapter: str, digest: str) -> None:
        ticket = Ticket(self.student(), chapter, digest)
        try:
            result = self.queue.record(ticket).result()
        except ValueError:
            result = None
        if (ahead := self.queue.ahead(ticket)) is not None:
            self.set_status(202)
            self.write({"ahead": ahead})
        elif result is None:
            raise NotTaken(404, "The marking did not come to its end, and cost no try: send the notebook again.")
        elif "refused" in result:
            raise NotTaken(422, result["refused"])
        else:
            page = self.queue.record(ticket).page()
            self.write(json.dumps(result | {"page": page} | self.queue.tries(ticket.student, chapter)))


def app(queue: Queue, secret: bytes) -> Application:
    own = {"queue": queue, "secret": secret}
    paths = [(r"(?:/.*)?/notebooks", Notebooks, own), (r"(?:/.*)?/marks/([^/]+)/([0-9a-f]+)", OfOne, own)]
    return Application(paths)  # type: ignore[arg-type]
