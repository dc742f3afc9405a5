"""Carries the collectives of one case with ranks, in a process of the referee's that the learner's code cannot reach.

It is forked before the case runs and logs to an unnamed file. The kernel gets one socket for each rank and one for
their supervisor, and nothing else of it.
"""

import os
import resource
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
import torch

from autograder.sandbox.namespaces import die_with_parent
from gpulab.collectives.broker.broker import Broker
from gpulab.collectives.broker.clocks import Carrier
from gpulab.collectives.brokers import RankSockets, socket_pairs
from gpulab.collectives.errors import Problem
from gpulab.collectives.journal import Entry

CPU_SECONDS, SECONDS = 10, 60
MAX_RECORD_BYTES = 32 << 20
"""Limit of the log. A broker that would exceed it ends, and the ranks fail: nobody carries their collectives."""
MAX_HELD_BYTES = 512 << 20
"""Limit of what waits in a broker: the store's values, and what was sent to a rank that does not receive. As for the log."""


@dataclass(frozen=True)
class CollectiveRecord:
    """One collective or point-to-point message as the broker saw it. ``given``: each rank's input, as bytes."""

    entry: Entry
    given: tuple[bytes, ...]


@dataclass(frozen=True)
class Traffic:
    """All communication between the ranks of a case, in order, and the problem that the broker found, if any.

    ``stored``: (rank, operation, key) of each use of the process group's store, which carries bytes beside collectives.
    ``asked``: (rank, number of collectives by then) of each request for a rank's own inputs.
    """

    collectives: tuple[CollectiveRecord, ...] = ()
    problem: Problem | None = None
    stored: tuple[tuple[int, str, str], ...] = ()
    asked: tuple[tuple[int, int], ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(collective.entry for collective in self.collectives)


@dataclass
class CollectiveBroker:
    """Serves ``ranks`` ranks from its creation on. ``sockets``: the ranks' and the supervisor's side.

    ``per_rank_inputs``: for each rank its encoded inputs, one for each request; no other rank can request them.
    """

    ranks: int
    network: Carrier | None = None
    per_rank_inputs: tuple[tuple[bytes, ...], ...] = ()
    sockets: RankSockets = field(init=False)
    _record: IO[bytes] = field(init=False)
    _line: socket.socket = field(init=False)
    _pid: int = field(init=False)

    def __post_init__(self) -> None:
        brokers_sockets, self.sockets = socket_pairs(self.ranks)
        self._record = tempfile.TemporaryFile()
        self._line, broker_line = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self.sockets.close()
            self._line.close()
            _serve(brokers_sockets, self.network, self.per_rank_inputs, self._record.fileno(), broker_line)
        broker_line.close()
        brokers_sockets.close()

    def traffic(self) -> Traffic:
        """Stop the broker and read its log."""
        self.sockets.close()
        self._end()
        with self._record as record:
            record.seek(0)
            return _read(record.read())

    def _end(self) -> None:
        """By closing its socket, not by a signal: where SIGCHLD is ignored, its pid may belong to another process."""
        with self._line as line:
            line.shutdown(socket.SHUT_WR)
            line.recv(1)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


def _serve(
    brokers_sockets: RankSockets,
    network: Carrier | None,
    each: tuple[tuple[bytes, ...], ...],
    record: int,
    line: socket.socket,
) -> None:
    """In the fork. Never returns. It ends when nobody is at the other end of ``line``."""
    try:
        threading.Thread(target=lambda: os._exit(len(line.recv(1))), daemon=True).start()
        die_with_parent(signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_RECORD_BYTES, MAX_RECORD_BYTES))
        _bound_memory(MAX_HELD_BYTES)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whoever forked this may hear it
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        torch.set_num_threads(1)
        Broker(
            brokers_sockets.ranks,
            brokers_sockets.supervisor,
            network,
            on_entry=lambda entry, given: _write(record, "entry", [entry.to_dict(), given]),
            on_problem=lambda problem: _write(record, "problem", problem.to_dict()),
            on_store=lambda rank, what, key: _write(record, "store", [rank, what, key[:200]]),
            on_given=lambda rank: _write(record, "given", [rank]),
            given=each,
            ghosts=False,
        ).serve()
    finally:
        os._exit(0)


def _bound_memory(more_bytes: int) -> None:
    """Beyond what the fork began with. Linux alone counts what a process may write to."""
    if (statm := Path("/proc/self/statm")).exists():
        written = int(statm.read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (written + more_bytes, written + more_bytes))


def _write(record: int, kind: str, what: dict | list) -> None:
    data = msgspec.msgpack.encode([kind, what])
    os.write(record, len(data).to_bytes(8, "big") + data)


def _read(record: bytes) -> Traffic:
    collectives, stored, asked, problem = [], [], [], None
    for kind, what in map(msgspec.msgpack.decode, _frames(record)):
        if kind == "entry":
            collectives.append(CollectiveRecord(Entry.from_dict(what[0]), tuple(what[1])))
        elif kind == "store":
            stored.append(tuple(what))
        elif kind == "given":
            asked.append((what[0], len(collectives)))
        else:
            problem = Problem.from_dict(what)
    return Traffic(tuple(collectives), problem, tuple(stored), tuple(asked))


def _frames(record: bytes) -> Iterator[bytes]:
    """Complete frames only: the broker may have been stopped while it wrote one."""
    at = 0
    while at + 8 <= len(record):
        end = at + 8 + int.from_bytes(record[at : at + 8], "big")
        if end <= len(record):
            yield record[at + 8 : end]
        at = end
