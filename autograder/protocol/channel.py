"""The protocol between scenarios in the sandbox and the referee: a few typed messages over a Unix socket.

Frames are the standard library's ``multiprocessing.connection`` ones, bytes only: its
pickling ``send``/``recv`` are never called.
"""

from multiprocessing.connection import Connection

import msgspec

from autograder.protocol.limits import MAX_MESSAGE_BYTES

MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + 1024
MOST_NOTICED = 50
MOST_CODE = 160
"""Characters of a line that is told."""


class Begin(msgspec.Struct, tag="begin", forbid_unknown_fields=True):
    """The graded cell of ``exercise`` is running: send its first case."""

    exercise: str


class Evidence(msgspec.Struct, tag="evidence", forbid_unknown_fields=True):
    """The result of case ``number``; ``data`` is a message of :mod:`autograder.protocol.wire`."""

    number: int
    data: bytes


class EventRecord(msgspec.Struct, tag="event", forbid_unknown_fields=True):
    """An event that an instrument sends while case ``number`` runs; it gets no answer."""

    number: int
    data: bytes


class Noticed(msgspec.Struct, tag="noticed", forbid_unknown_fields=True):
    """A learner's line did what no exercise needs; see :mod:`autograder.core.flag` for ``kind``. It gets no answer.

    ``line``: of its cell, from 1; ``code``: that line.
    """

    kind: str
    name: str
    line: int
    code: str


def cut(noticed: Noticed) -> Noticed:
    """With no text longer than a line that a person reads."""
    return Noticed(noticed.kind[:20], noticed.name[:80], noticed.line, noticed.code[:MOST_CODE])


class Inputs(msgspec.Struct, tag="inputs", forbid_unknown_fields=True):
    """Run case ``number`` with these inputs. With ``ranks``, the file descriptors of their sockets follow."""

    number: int
    data: bytes
    ranks: int = 0


class Done(msgspec.Struct, tag="done", forbid_unknown_fields=True):
    """No more cases. What was earned is not said here."""


class Refused(msgspec.Struct, tag="refused", forbid_unknown_fields=True):
    """The referee does not accept this message now."""

    why: str


_to_referee = msgspec.msgpack.Decoder(Begin | Evidence | EventRecord | Noticed)
_to_kernel = msgspec.msgpack.Decoder(Inputs | Done | Refused)


def send(connection: Connection, message: msgspec.Struct) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive_at_referee(connection: Connection) -> Begin | Evidence | EventRecord | Noticed:
    """The next message. Raises EOFError, OSError (oversized) or msgspec.DecodeError."""
    return _to_referee.decode(connection.recv_bytes(MAX_FRAME_BYTES))


def receive_in_kernel(connection: Connection) -> Inputs | Done | Refused:
    """The referee's answer. Raises EOFError, OSError or msgspec.DecodeError."""
    return _to_kernel.decode(connection.recv_bytes())
