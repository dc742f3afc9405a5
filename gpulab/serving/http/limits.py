"""Limits of the server: how long and how large a request may be, and how long a client may take to read."""

import asyncio
from dataclasses import dataclass

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from gpulab.serving.http import errors
from gpulab.serving.http.lingering import Lingering

BACKLOG = 512
"""Connections that are accepted in one turn of the event loop, at most."""
RESERVED = 64
"""Connections beyond the limit that are heard, so that probes are; further ones are closed unheard."""
PIPELINED_BYTES = 1 << 16
"""That may wait behind a request. They are read, for only who reads learns that a client has left."""
PROBES = ("/health", "/ready", "/metrics")
"""A server that is full is not dead, and its operator wants to see it."""


@dataclass(frozen=True)
class Limits:
    """connections: open at once; one more is answered 429, but for probes. head_s: seconds until a request's head is there.
    body_s: until its body is. body_bytes: of a body at most. read_s: until a client has read what waits for it."""

    connections: int = 2048
    head_s: float = 5.0
    body_s: float = 10.0
    body_bytes: int = 1 << 18
    read_s: float = 30.0

    def protocol(self) -> type[H11Protocol]:
        """uvicorn's, which by itself waits for a head for ever."""
        most = self.connections + RESERVED
        return type("Patient", (_Patient,), {"head_s": self.head_s, "read_s": self.read_s, "most": most})

    def __call__(self, app, connections):
        """The ASGI application with bodies read before it is asked. ``connections()``: how many are open."""

        async def patient(scope, receive, send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            if connections() > self.connections and scope["path"] not in PROBES:
                return await self._too_many()(scope, receive, send)
            body = await self._body(scope, receive)
            if isinstance(body, bytes):
                return await app(scope, _Again(body, receive), send)
            if body is not None:
                await body(scope, receive, send)

        return patient

    async def _body(self, scope, receive):
        """The bytes; or the answer to a body that is too large or too late; or None if the client has gone."""
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self.body_bytes:
            return self._too_large()
        try:
            async with asyncio.timeout(self.body_s):
                return await self._read(receive)
        except asyncio.CancelledError:
            return errors.of(errors.Draining("the server has shut down before the body was there"))
        except TimeoutError:
            return errors.answer(f"the body did not come within {self.body_s:g} s", 408, Connection="close")

    async def _read(self, receive):
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.body_bytes:
                return self._too_large()
        return bytes(body)

    def _too_many(self):
        why, headers = f"{self.connections:,} connections are open at most", {"Retry-After": "1", "Connection": "close"}
        return errors.answer(why, 429, code="too_many_connections", **headers)

    def _too_large(self):
        return errors.answer(f"a body has {self.body_bytes:,} bytes at most", 413, Connection="close")


class _Again:
    """A ``receive`` that gives the body that was read, then what comes after it."""

    def __init__(self, body: bytes, receive) -> None:
        self._body, self._receive = body, receive

    async def __call__(self) -> dict:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


class _Patient(H11Protocol):
    """A connection whose head does not come in time gets 408 and is closed; one that nobody reads is cut off.

    ``transport.close`` waits until all that was written has been read, for ever: hence ``abort``.
    """

    head_s: float
    read_s: float
    most: int
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._has_read()

    def _has_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        self.transport = Lingering(transport, self._is_sent_to)
        if len(self.connections) > self.most:
            return transport.abort()
        self._wait_for_head()

    def _is_sent_to(self) -> bool:
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or bool(self.conn.trailing_data[0])

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_is_there()
            self._keep_reading()

    def _keep_reading(self) -> None:
        waiting = len(self.conn.trailing_data[0])
        if waiting > PIPELINED_BYTES:
            self.transport.abort()
        elif waiting:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._has_read()
        self.transport.has_closed()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_is_there()
        self._late = self.loop.call_later(self.head_s, self._close)

    def _head_is_there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        if self.transport.get_write_buffer_size():
            return self.transport.abort()
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self._refuse(408, f"the head of the request did not come within {self.head_s:g} s")
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """uvicorn's, for what is no HTTP at all."""
        self._refuse(400, msg)
        self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        answer = errors.answer(message, status)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=answer.body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
