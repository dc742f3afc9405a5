"""How scenarios in the sandbox talk to the referee: a few typed messages over a Unix socket.

Frames are the standard library's ``multiprocessing.connection`` ones, bytes only: its
pickling ``send``/``recv`` are never called.
"""

from collections.abc import Mapping
from multiprocessing.connection import Client, Connection
from typing import Any

import msgspec

from autograder.wire import MAX_MESSAGE_BYTES

MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + 1024


class Begin(msgspec.Struct, tag="begin", forbid_unknown_fields=True):
    """The graded cell of ``exercise`` is running: send its first case."""

    exercise: str


class Evidence(msgspec.Struct, tag="evidence", forbid_unknown_fields=True):
    """What case ``number`` gave; ``data`` is a message of :mod:`autograder.wire`."""

    number: int
    data: bytes


class Inputs(msgspec.Struct, tag="inputs", forbid_unknown_fields=True):
    """Play case ``number`` with these inputs."""

    number: int
    data: bytes


class Done(msgspec.Struct, tag="done", forbid_unknown_fields=True):
    """No more cases. What was earned is not said here."""


class Refused(msgspec.Struct, tag="refused", forbid_unknown_fields=True):
    """The referee takes no such message now."""

    why: str


_to_referee = msgspec.msgpack.Decoder(Begin | Evidence)
_to_kernel = msgspec.msgpack.Decoder(Inputs | Done | Refused)


def send(connection: Connection, message: msgspec.Struct) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive_at_referee(connection: Connection) -> Begin | Evidence:
    """The next message. Raises EOFError, OSError (oversized) or msgspec.DecodeError."""
    return _to_referee.decode(connection.recv_bytes(MAX_FRAME_BYTES))


def play(exercise: str, namespace: Mapping[str, Any], address: str) -> None:
    """Play every case of ``exercise`` that the referee at ``address`` sends."""
    from autograder.proctor import sit

    with Client(address, family="AF_UNIX") as referee:
        send(referee, Begin(exercise))
        while isinstance(answer := _to_kernel.decode(referee.recv_bytes()), Inputs):
            send(referee, Evidence(answer.number, sit(exercise, namespace, answer.data)))
    if isinstance(answer, Refused):
        raise RuntimeError(f"the referee refused {exercise}: {answer.why}")
