"""How the ends of a switchboard's sockets reach the kernel, and its ranks.

They are passed over the Unix sockets on which a case's inputs come; what arrives is what :func:`run_ranks` works
with, once.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulab.collectives.boards import Ends


def send_ends(connection: Connection, ends: "Ends") -> None:
    """Behind the message that says how many ranks there are. They are closed here."""
    descriptors = [sock.fileno() for sock in (ends.supervisor, *ends.ranks)]
    try:
        with _socket_of(connection) as line:
            socket.send_fds(line, [b"."], descriptors)
    finally:
        ends.close()


def receive_ends(connection: Connection, ranks: int) -> "Ends":
    """Raises EOFError."""
    from gpulab.collectives.boards import Ends

    with _socket_of(connection) as line:
        said, descriptors, *_ = socket.recv_fds(line, 1, ranks + 1)
    supervisor, *others = map(_socket, descriptors)
    if not said or len(others) != ranks:
        raise EOFError(f"{len(descriptors)} ends came for {ranks} ranks")
    return Ends(others, supervisor)


@contextmanager
def ranks_have(ends: "Ends | None") -> Iterator[None]:
    """Inside the block one call of :func:`run_ranks` works with ``ends``; None: as everywhere."""
    if ends is None:
        yield
        return
    from gpulab.collectives import boards_from

    unused = [ends]

    def connect(world_size: int, network: object) -> "Ends":
        if not unused or world_size != len(ends.ranks):
            raise RuntimeError(f"this case has {len(ends.ranks)} ranks, once")
        return unused.pop()

    try:
        with boards_from(connect):
            yield
    finally:
        ends.close()


def _socket_of(connection: Connection) -> socket.socket:
    return _socket(os.dup(connection.fileno()))


def _socket(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)
