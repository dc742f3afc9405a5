"""The marking service over HTTP, as :mod:`autograder.client.service` speaks to it. Whatever stands before its paths is a proxy's.

``POST notebooks``: a notebook as JSON; 202 with the path to ask for its marks. ``GET marks/CHAPTER/DIGEST``: 202 while they are
not there, with how many are before it; 200 with marks and page. Errors are ``{"error": sentence}``.
"""

import json

from tornado.web import Application, RequestHandler, stream_request_body

from autograder.marking.queue import NotTaken, Queue, Ticket
from autograder.marking.tokens import student_of

UNKNOWN = "The service does not know this token: copy it again from your instructor's message."
NOT_ENDED = "The marking did not come to its end, and used no try: send the notebook again."
NO_MARKS = (
    "The marking of this notebook ended without marks, and used a try: tell your instructor, who can give it back where the "
    "notebook is not to blame."
)


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
    """A learner sends one at a time. What is refused is read to its end, or its sender would not read why; and is not kept."""

    def prepare(self) -> None:
        self._raw, self._refused, self._sender = bytearray(), None, ""
        try:
            student = self.student()
            if student in self.queue.sending:
                raise NotTaken(429, "Another notebook of yours is being sent: send this one once that is done.")
        except NotTaken as why:
            self._refused = why
        else:
            self._sender = student
            self.queue.sending.add(student)

    def data_received(self, chunk: bytes) -> None:
        if not self._refused:
            self._raw += chunk

    async def post(self) -> None:
        if self._refused:
            raise self._refused
        ticket = await self.queue.take(self._sender, bytes(self._raw))
        marked = self.queue.ahead(ticket) is None
        about = {"ask": f"marks/{ticket.chapter}/{ticket.digest}", "chapter": ticket.chapter, "marked": marked}
        self.set_status(202)
        self.write(about | self.queue.tries(ticket.student, ticket.chapter))

    def on_finish(self) -> None:
        self.queue.sending.discard(self._sender)

    on_connection_close = on_finish


class OfOne(_Known):
    def get(self, chapter: str, digest: str) -> None:
        ticket = Ticket(self.student(), chapter, digest)
        try:
            record = self.queue.record(ticket)
        except ValueError:
            raise NotTaken(404, NOT_ENDED) from None
        if (ahead := self.queue.ahead(ticket)) is not None:
            self.set_status(202)
            self.write({"ahead": ahead})
            return
        result = record.result() or {}
        if "marks" in result:
            self.write(json.dumps(result | {"page": record.page()} | self.queue.tries(ticket.student, chapter)))
        elif "refused" in result:
            raise NotTaken(422, result["refused"])
        elif record.was_run:
            raise NotTaken(410, NO_MARKS)
        else:
            raise NotTaken(404, NOT_ENDED)


def app(queue: Queue, secret: bytes) -> Application:
    own = {"queue": queue, "secret": secret}
    paths = [(r"(?:/.*)?/notebooks", Notebooks, own), (r"(?:/.*)?/marks/([^/]+)/([0-9a-f]+)", OfOne, own)]
    return Application(paths)  # type: ignore[arg-type]
