"""Where a broker comes from, and the seam at which somebody else may start one.

A broker is a process apart from the ranks. Its ends of the socket pairs stay with it; the ranks' ends and
the supervisor's are what :func:`run_ranks` works with, and all that it ever sees of it: :class:`RankSockets`.

Whoever must own the journal (a referee) runs brokers itself, in a process that it starts before any of the
learner's code runs, and keeps one end of a socket pair there::

    ours, theirs = socket.socketpair()
    if os.fork() == 0:                                    # a process that the learner's code cannot reach
        serve_brokers(ours, network, on_run=..., on_entry=...)     # who owns the record is told as it comes about
        os._exit(0)
    with brokers_from(asked_for_at(theirs)):               # in the process whose code calls run_ranks
        ...

``run_ranks`` asks at ``theirs`` for a broker and is handed the ends as descriptors. A single one can be made by
hand too: :func:`socket_pairs`, ``Broker(...).serve()`` over the one side, and ``run_ranks(..., broker=lambda *_: ends)``
with the other. One broker serves one run.
"""

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from gpulab.collectives.broker.broker import Broker, OnEntry, OnProblem
from gpulab.collectives.broker.clocks import Carrier


@dataclass
class RankSockets:
    """One side of the socket pairs: one for each rank, and one for who watches over the ranks.

    ``pid``: the broker's process where it is a child of this one, to be waited for; None elsewhere.
    """

    ranks: list[socket.socket]
    supervisor: socket.socket
    pid: int | None = None

    def close(self) -> None:
        for sock in (*self.ranks, self.supervisor):
            sock.close()


Connect = Callable[[int, Carrier | None], RankSockets]
"""(world_size, network) -> the ends to work with, of a broker that serves nobody else."""


def socket_pairs(world_size: int) -> tuple[RankSockets, RankSockets]:
    """(the broker's ends, the ranks' and the supervisor's ends)."""
    pairs = [socket.socketpair() for _ in range(world_size + 1)]
    brokers, others = zip(*pairs)
    return RankSockets(list(brokers[1:]), brokers[0]), RankSockets(list(others[1:]), others[0])


def served_in_a_fork(ranks: int, serve: Callable[[RankSockets], None]) -> RankSockets:
    """The ends to work with, of so many ranks: a child of this process runs ``serve`` over the broker's ends."""
    broker, ends = socket_pairs(ranks)
    ends.pid = os.fork()
    if ends.pid == 0:
        try:
            ends.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            torch.set_num_threads(1)
            serve(broker)
        finally:
            os._exit(0)
    broker.close()
    return ends


def forked_broker(world_size: int, network: Carrier | None) -> RankSockets:
    """A broker in a child of this process: what :func:`run_ranks` does by itself."""
    return served_in_a_fork(world_size, lambda own: Broker(own.ranks, own.supervisor, network).serve())


_connect: Connect = forked_broker


def connected(world_size: int, network: Carrier | None) -> RankSockets:
    """A broker from where they come from now."""
    return _connect(world_size, network)


@contextmanager
def brokers_from(connect: Connect) -> Iterator[None]:
    """Inside the block, brokers are had from ``connect``."""
    global _connect
    before, _connect = _connect, connect
    try:
        yield
    finally:
        _connect = before


# ---- for somebody else's process


_ASKS, _REFUSED, _HANDED = struct.Struct("!I"), b"0", b"1"
MOST_RANKS = 64


def serve_brokers(
    asks: socket.socket,
    network: Carrier | None = None,
    on_run: Callable[[int], None] = lambda world_size: None,
    on_entry: OnEntry = lambda entry, given: None,
    on_problem: OnProblem = lambda problem: None,
) -> None:
    """Serve one run after another for whoever asks at the other end of ``asks``, until that hangs up.

    on_run: is told the number of ranks of each run before it begins. on_entry, on_problem: as :class:`Broker`'s. network: of every run, whatever the asking process would have (None: :class:`Instant`).
    More than MOST_RANKS are refused.
    """
    while wanted := asks.recv(_ASKS.size, socket.MSG_WAITALL):
        (world_size,) = _ASKS.unpack(wanted)
        if not 1 <= world_size <= MOST_RANKS:
            asks.sendall(_REFUSED)
            continue
        broker, ends = socket_pairs(world_size)
        on_run(world_size)
        socket.send_fds(asks, [_HANDED], [sock.fileno() for sock in (ends.supervisor, *ends.ranks)])
        ends.close()
        Broker(broker.ranks, broker.supervisor, network, on_entry, on_problem).serve()
        broker.close()


def asked_for_at(desk: socket.socket) -> Connect:
    """Where :func:`serve_brokers` listens at the other end. What it gives raises ValueError for too many ranks."""

    def connect(world_size: int, network: Carrier | None) -> RankSockets:
        desk.sendall(_ASKS.pack(world_size))
        said, descriptors, _, _ = socket.recv_fds(desk, len(_HANDED), world_size + 1)
        if said != _HANDED:
            raise ValueError(f"{world_size} ranks: no more than {MOST_RANKS} are served here")
        supervisor, *ranks = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        return RankSockets(ranks, supervisor)

    return connect
