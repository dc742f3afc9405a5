"""The referee's own broker: its log is its own, and its sockets travel to the kernel over the referee's socket."""

import os
import sys

import psutil
import pytest
import torch
import torch.distributed as dist

from autograder.core.exercise import Case
from autograder.judge import collective_broker
from autograder.judge.collective_broker import CollectiveBroker
from autograder.judge.grading_server import GradingServer
from autograder.protocol import wire
from autograder.protocol.rank_sockets import use_sockets
from autograder.runner.background_work import detector
from autograder.runner.client import play
from gpulab.collectives import run_ranks
from gpulab.collectives.rank import session
from tests.forks import in_a_fork
from tests.gates.test_cheats_among_ranks import honest, pointed_elsewhere


def sums(rank, world):
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x)
    return x.tolist()


def carried(broker: CollectiveBroker, fn):
    with use_sockets(broker.sockets):
        run = run_ranks(fn, broker.ranks, card="off", backend="gloo", check=False)
    return run, broker.traffic()


def test_it_records_the_input_of_each_rank():
    run, traffic = carried(CollectiveBroker(2), sums)
    assert run.results == [[3.0] * 4] * 2
    (collective,) = traffic.collectives
    assert (collective.entry.operation, collective.entry.bytes, collective.entry.ranks) == ("all_reduce", 16, (0, 1))
    assert [torch.frombuffer(bytearray(given), dtype=torch.float32).tolist() for given in collective.given] == [
        [1.0] * 4,
        [2.0] * 4,
    ]


def test_it_records_who_asked_the_store_for_what():
    def stores(rank, world):
        dist.distributed_c10d._get_default_store().set("here", str(rank))

    assert set(carried(CollectiveBroker(2), stores)[1].stored) == {(0, "set", "0//here"), (1, "set", "0//here")}


def test_it_records_what_went_wrong():
    _, traffic = carried(CollectiveBroker(2), lambda rank, world: sums(rank, world) if rank else None)
    assert traffic.problem.kind == "deadlock"


def sets_a_megabyte(times: int):
    def sets(rank, world):
        store = dist.distributed_c10d._get_default_store()
        for number in range(times if rank == 0 else 0):
            store.set(str(number), "x" * 1_000_000)

    return sets


def held(times: int) -> tuple[int, bool]:
    """How many of so many megabytes a broker holds that may take 128 MiB; it would use what a larger process has freed, too."""
    collective_broker.MAX_HELD_BYTES = 128 << 20
    run, traffic = carried(CollectiveBroker(2), sets_a_megabyte(times))
    return len(traffic.stored), run.error is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone bounds what a process writes to")
@pytest.mark.parametrize("times, is_carried", [(16, True), (400, False)])
def test_it_holds_no_more_than_its_bound(times, is_carried):
    stored, has_ended_well = in_a_fork(held, times)
    assert (stored == times) == is_carried and stored < 140
    assert has_ended_well == is_carried


def test_it_ends_when_its_record_is_asked_for_whoever_holds_its_sockets():
    broker = CollectiveBroker(2)
    kept = [os.dup(sock.fileno()) for sock in (broker.sockets.supervisor, *broker.sockets.ranks)]
    assert broker.traffic() == collective_broker.Traffic()
    assert not psutil.pid_exists(broker._pid)
    for end in kept:
        os.close(end)


def given(rank, world):
    return wire.decode(bytes(session.current().given()))


def test_each_rank_is_given_its_own_and_nobody_elses():
    each = tuple((wire.encode({"x": torch.full((2,), rank)}),) for rank in range(3))
    run, traffic = carried(
        CollectiveBroker(3, per_rank_inputs=each), lambda rank, world: given(rank, world)["x"].tolist()
    )
    assert run.results == [[0, 0], [1, 1], [2, 2]]
    assert sorted(traffic.asked) == [(0, 0), (1, 0), (2, 0)] and not traffic.collectives and traffic.problem is None


def test_inputs_are_given_one_by_one_and_the_record_says_how_many_collectives_came_before():
    def in_turn(rank, world):
        first = given(rank, world)["x"]
        dist.barrier()
        return [first, given(rank, world)["x"], given(rank, world)["x"]]

    each = tuple(tuple(wire.encode({"x": 10 * rank + call}) for call in range(2)) for rank in range(2))
    run, traffic = carried(CollectiveBroker(2, per_rank_inputs=each), in_turn)
    assert run.results == [[0, 1, 1], [10, 11, 11]]  # after the last piece it is the last again
    assert [by_then for rank, by_then in traffic.asked if rank == 1] == [0, 1, 1]


def test_where_no_inputs_are_given_a_request_for_them_is_no_message():
    run, traffic = carried(CollectiveBroker(2), given)
    assert traffic.problem.kind == "protocol" and "a wish to 'given'" in str(run.error)


def test_a_case_has_inputs_for_all_of_its_ranks_or_for_none():
    with pytest.raises(ValueError, match="inputs for 1 ranks, where the case has 2"):
        Case(("values",), ranks=2, per_rank_inputs=({"x": 1},))


def test_its_sockets_serve_one_run_of_so_many_ranks():
    broker = CollectiveBroker(2)
    with use_sockets(broker.sockets):
        with pytest.raises(RuntimeError, match="2 ranks, once"):
            run_ranks(sums, 3)
        run_ranks(sums, 2, card="off", backend="gloo")
        with pytest.raises(RuntimeError, match="2 ranks, once"):
            run_ranks(sums, 2)
    assert len(broker.traffic().collectives) == 1


def test_more_than_an_exercise_needs_is_not_carried(monkeypatch):
    monkeypatch.setattr(collective_broker, "MAX_RECORD_BYTES", 1000)
    run, traffic = carried(CollectiveBroker(2), lambda rank, world: [sums(rank, world) for _ in range(20)])
    assert "broker is gone" in str(run.error)
    assert 0 < len(traffic.collectives) < 20


def test_ranks_are_expected_and_no_other_process_is():
    with detector.watch() as background:
        with detector.expect("os.fork", 2):
            for _ in range(3):
                if (pid := os.fork()) == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
    assert background == ["process"]


@pytest.fixture
def server(tmp_path):
    with GradingServer(tmp_path) as server:
        yield server


def graded(server, function):
    server.open("collectives.ring_all_reduce")
    play("collectives.ring_all_reduce", {"ring_all_reduce": function}, server.address)
    return server.close()


@pytest.mark.audit
def test_over_the_referees_socket_the_honest_ring_earns_everything(server):
    assert graded(server, honest).score == 8
    assert server.incidents == server.broken == []


def test_over_the_referees_socket_a_sum_that_was_never_sent_earns_nothing(server):
    assert graded(server, pointed_elsewhere).score == 0


def test_what_the_kernel_says_of_the_traffic_is_not_asked(server, monkeypatch):
    from autograder.runner import scenario_runner

    sent = scenario_runner.wire.encode
    monkeypatch.setattr(
        scenario_runner.wire,
        "encode",
        lambda value: sent(value | {"traffic": None} if "background" in value else value),
    )
    assert graded(server, honest).score == 8
