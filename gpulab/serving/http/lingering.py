"""A lingering close: who is still sending can read why nobody listens any more (RFC 9112, section 9.6).

A socket that is closed with bytes unread, or that more of them reach, sends a reset; at a reset the other end drops what it has
not read yet, the answer among it. So what goes on coming is read and dropped until the other end closes, for a while.
"""

import asyncio
from collections.abc import Callable
from typing import Any

LINGER_S = 2.0
"""Seconds at most."""


class Lingering:
    """A transport whose ``close`` lingers where ``is_sent_to()``: where its other end has not sent all of its request."""

    def __init__(self, transport: asyncio.Transport, is_sent_to: Callable[[], bool]) -> None:
        self._transport, self._is_sent_to = transport, is_sent_to
        self._late: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._late is not None or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._is_sent_to():
            return self._transport.close()
        self._late = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)
        self._transport.write_eof()
        self._transport.resume_reading()

    def has_closed(self) -> None:
        if self._late is not None:
            self._late.cancel()
