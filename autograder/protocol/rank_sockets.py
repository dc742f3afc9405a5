"""Passes the sockets of a collective broker to the kernel, as file descriptors over the Unix socket of the protocol.

:func:`run_ranks` uses the sockets that arrive, for one run.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulab.collectives.brokers import RankSockets


def send_sockets(connection: Connection, sockets: "RankSockets") -> None:
    """After the message that says how many ranks there are. Closes them in this process."""
    descriptors = [sock.fileno() for sock in (sockets.supervisor, *sockets.ranks)]
    try:
        with _socket_of(connection) as line:
            socket.send_fds(line, [b"."], descriptors)
    finally:
        sockets.close()


def receive_sockets(connection: Connection, ranks: int) -> "RankSockets":
    """Raises EOFError."""
    from gpulab.collectives.brokers import RankSockets

    with _socket_of(connection) as line:
        said, descriptors, *_ = socket.recv_fds(line, 1, ranks + 1)
    supervisor, *others = map(_socket, descriptors)
    if not said or len(others) != ranks:
        raise EOFError(f"received {len(descriptors)} descriptors for {ranks} ranks and a supervisor")
    return RankSockets(others, supervisor)


@contextmanager
def use_sockets(sockets: "RankSockets | None") -> Iterator[None]:
    """Inside the block, one call of :func:`run_ranks` uses ``sockets``. With None nothing changes."""
    if sockets is None:
        yield
        return
    from gpulab.collectives import brokers_from

    unused = [sockets]

    def connect(world_size: int, network: object) -> "RankSockets":
        if not unused or world_size != len(sockets.ranks):
            raise RuntimeError(f"this case has {len(sockets.ranks)} ranks, once")
        return unused.pop()

    try:
        with brokers_from(connect):
            yield
    finally:
        sockets.close()


def _socket_of(connection: Connection) -> socket.socket:
    return _socket(os.dup(connection.fileno()))


def _socket(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)
