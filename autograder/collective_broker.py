"""The switchboard of one case with ranks: a process of the referee's, which the learner's code can neither read nor write.

It is forked before the case is played, and keeps its record in a file without a name. The kernel gets the ranks' and
the supervisor's ends of its sockets, and nothing else of it.
"""

import os
import resource
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

import msgspec
import torch

from autograder.kernels.namespaces import die_with_parent
from gpulab.collectives.board.clocks import Carrier
from gpulab.collectives.board.switchboard import Switchboard
from gpulab.collectives.boards import RankSockets, socket_pairs
from gpulab.collectives.errors import Problem
from gpulab.collectives.journal import Entry

CPU_SECONDS, SECONDS = 10, 60
MAX_RECORD_BYTES = 32 << 20
"""What an exercise lets cross. A switchboard that would carry more ends, and the ranks are told that it is gone."""


@dataclass(frozen=True)
class CollectiveRecord:
    """One collective or message, as the switchboard saw it: ``given`` are the bytes that each of its ranks handed in."""

    entry: Entry
    given: tuple[bytes, ...]


@dataclass(frozen=True)
class Traffic:
    """All that crossed between the ranks of a case, in order, and what the switchboard found wrong, if anything.

    ``stored``: (rank, what, key) of each time that a rank asked the store, which carries bytes beside the collectives.
    ``asked``: of each time that a rank asked for inputs of its own, the rank and how many crossings there were by then.
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
    """A switchboard for ``ranks`` ranks that begins to serve at once. ``sockets``: what the kernel works with.

    ``per_rank_inputs``: the pieces that each rank may ask for one by one, as bytes, and no other rank can.
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
        """Ends the switchboard and gives its record."""
        self.sockets.close()
        self._end()
        with self._record as record:
            record.seek(0)
            return _read(record.read())

    def _end(self) -> None:
        """By a word to it and not by a signal: where SIGCHLD is ignored, its number may be another process's by now."""
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
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # whoever forked this may hear it
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        torch.set_num_threads(1)
        Switchboard(
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
    """Those that are whole: the switchboard may have been ended within one."""
    at = 0
    while at + 8 <= len(record):
        end = at + 8 + int.from_bytes(record[at : at + 8], "big")
        if end <= len(record):
            yield record[at + 8 : end]
        at = end
