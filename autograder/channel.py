"""The protocol between scenarios in the sandbox and the referee: a few typed messages over a Unix socket.

Frames are the standard library's ``multiprocessing.connection`` ones, bytes only: its
pickling ``send``/``recv`` are never called.
"""

import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Client, Connection
from typing import Any

import msgspec

from autograder.rank_sockets import receive_sockets, use_sockets
from autograder.wire import MAX_MESSAGE_BYTES

MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + 1024


class Begin(msgspec.Struct, tag="begin", forbid_unknown_fields=True):
    """The graded cell of ``exercise`` is running: send its first case."""

    exercise: str


class Evidence(msgspec.Struct, tag="evidence", forbid_unknown_fields=True):
    """The result of case ``number``; ``data`` is a message of :mod:`autograder.wire`."""

    number: int
    data: bytes


class EventRecord(msgspec.Struct, tag="event", forbid_unknown_fields=True):
    """An event that an instrument sends while case ``number`` runs; it gets no answer."""

    number: int
    data: bytes


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


_to_referee = msgspec.msgpack.Decoder(Begin | Evidence | EventRecord)
_to_kernel = msgspec.msgpack.Decoder(Inputs | Done | Refused)


def send(connection: Connection, message: msgspec.Struct) -> None:
    connection.send_bytes(msgspec.msgpack.encode(message))


def receive_at_referee(connection: Connection) -> Begin | Evidence | EventRecord:
    """The next message. Raises EOFError, OSError (oversized) or msgspec.DecodeError."""
    return _to_referee.decode(connection.recv_bytes(MAX_FRAME_BYTES))


def play(exercise: str, namespace: Mapping[str, Any], address: str) -> None:
    """Run every case of ``exercise`` that the referee at ``address`` sends."""
    from autograder.event_sink import sending_events
    from autograder.scenario_runner import run_case

    with Client(address, family="AF_UNIX") as referee:
        send(referee, Begin(exercise))
        while isinstance(answer := _to_kernel.decode(referee.recv_bytes()), Inputs):
            sockets = receive_sockets(referee, answer.ranks) if answer.ranks else None
            with sending_events(_event_sender(referee, answer.number)), use_sockets(sockets):
                data = run_case(exercise, namespace, answer.data)
            send(referee, Evidence(answer.number, data))
    if isinstance(answer, Refused):
        raise RuntimeError(f"the referee refused {exercise}: {answer.why}")


def _event_sender(referee: Connection, number: int) -> Callable[[bytes], None]:
    # The device emits from whichever thread works on it, and a frame may be written in two parts.
    lock = threading.Lock()

    def emit(data: bytes) -> None:
        with lock:
            send(referee, EventRecord(number, data))

    return emit
