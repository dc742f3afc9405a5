"""Somebody else may start the broker: a process that is neither a rank nor their parent owns the journal."""

import json
import os
import signal
import socket

import pytest
import torch
import torch.distributed as dist

from gpulab.collectives import Instant, RankError, brokers_from, run_ranks
from gpulab.collectives.broker.broker import Broker
from gpulab.collectives.brokers import asked_for_at, serve_brokers, socket_pairs
from gpulab.collectives.journal import Entry


def reduce_and_send(rank, world):
    x = torch.full((4,), float(rank), device="cuda")
    dist.all_reduce(x)
    dist.send(x, 1) if rank == 0 else rank == 1 and dist.recv(x, 0)
    return x.sum().item()


class Referee:
    """A process started before any rank's code, which writes down what it is told."""

    def __init__(self) -> None:
        ours, self.workspace = socket.socketpair()
        told, written = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.workspace.close()
            with os.fdopen(written, "w") as file:
                tell = lambda what: print(json.dumps(what), file=file, flush=True)
                serve_brokers(ours, Instant(), tell, lambda entry, given: tell(entry.to_dict()))
            os._exit(0)
        ours.close()
        os.close(written)
        self._told = told

    def record(self) -> list:
        """Of runs the number of ranks, then the entries; once the referee has ended."""
        self.workspace.close()
        os.waitpid(self.pid, 0)
        with os.fdopen(self._told) as file:
            return [json.loads(line) for line in file]


@pytest.fixture
def referee():
    referee = Referee()
    yield referee
    referee.workspace.close()


def test_the_journal_is_written_where_the_ranks_parent_is_not(referee):
    with brokers_from(asked_for_at(referee.workspace)):
        runs = [run_ranks(reduce_and_send, 2), run_ranks(reduce_and_send, 4)]
    assert [run.results for run in runs] == [[4.0] * 2, [24.0] * 4]
    record = referee.record()
    assert [what for what in record if isinstance(what, int)] == [2, 4]
    entries = [Entry.from_dict(what) for what in record if isinstance(what, dict)]
    assert entries == [*runs[0].journal, *runs[1].journal]
    assert [(e.operation, e.bytes, e.ranks) for e in entries] == [
        ("all_reduce", 16, (0, 1)),
        ("send", 16, (0, 1)),
        ("all_reduce", 16, (0, 1, 2, 3)),
        ("send", 16, (0, 1)),
    ]


def test_faults_are_found_there_too(referee):
    def deadlock(rank, world):
        dist.recv(torch.ones(4, device="cuda"), 1 - rank)

    with brokers_from(asked_for_at(referee.workspace)):
        with pytest.raises(RankError, match="deadlock: rank 0 waits in recv from rank 1"):
            run_ranks(deadlock, 2)
        assert run_ranks(reduce_and_send, 2).results == [4.0, 4.0]


def test_too_many_ranks_are_refused_there(referee):
    with brokers_from(asked_for_at(referee.workspace)):
        with pytest.raises(ValueError, match="no more than 64"):
            run_ranks(reduce_and_send, 65)


def test_a_referee_that_is_gone_ends_the_run(referee):
    connect = asked_for_at(referee.workspace)

    def connected(world_size, network):
        ends = connect(world_size, network)
        os.kill(referee.pid, signal.SIGKILL)
        os.waitpid(referee.pid, 0)
        return ends

    with pytest.raises(RankError, match="the broker is gone"):
        run_ranks(reduce_and_send, 2, broker=connected)


def test_what_is_no_message_is_that_ranks_fault():
    def writes_nonsense(rank, world):
        from gpulab.collectives.rank import session

        if rank == 1:
            session.current()._wire.sock.sendall(b"\xff" * 64)
        dist.all_reduce(torch.ones(4, device="cuda"))

    with pytest.raises(RankError, match="rank 1 sent what is no message"):
        run_ranks(writes_nonsense, 2)


@pytest.mark.parametrize(
    "lie", [{"ranks": [0, 5]}, {"ranks": [0]}, {"size": 3}, {"operation": "teleport"}, {"ready_us": None}]
)
def test_a_rank_that_lies_about_what_it_posts_is_found(lie):
    def lies(rank, world):
        from gpulab.collectives.rank import session

        ask = session.current().ask
        if rank == 1:
            session.current().ask = lambda meta, payload=(): ask({**meta, **lie}, payload)
        dist.all_reduce(torch.ones(4, device="cuda"))

    with pytest.raises(RankError, match="rank 1 sent what is no message"):
        run_ranks(lies, 2)


def test_a_single_broker_can_be_made_by_hand():
    broker, ends = socket_pairs(2)
    pid = os.fork()
    if pid == 0:
        ends.close()
        Broker(broker.ranks, broker.supervisor).serve()
        os._exit(0)
    broker.close()
    assert run_ranks(reduce_and_send, 2, broker=lambda world_size, network: ends).results == [4.0, 4.0]
    assert os.waitpid(pid, 0)[1] == 0
