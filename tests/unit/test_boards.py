"""The referee's own switchboard: its record is its own, and its ends travel to the kernel over the referee's socket."""

import os

import psutil
import pytest
import torch
import torch.distributed as dist

from autograder import boards, wire
from autograder.boards import Board
from autograder.channel import play
from autograder.ends import ranks_have
from autograder.exercise import Case
from autograder.hearing import Hearing
from autograder.witness import witness
from gpulab.collectives import run_ranks
from gpulab.collectives.rank import session
from tests.gates.test_cheats_among_ranks import honest, pointed_elsewhere


def sums(rank, world):
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x)
    return x.tolist()


def carried(board: Board, fn):
    with ranks_have(board.ends):
        run = run_ranks(fn, board.ranks, card="off", backend="gloo", check=False)
    return run, board.crossed()


def test_it_records_what_each_rank_handed_in():
    run, crossed = carried(Board(2), sums)
    assert run.results == [[3.0] * 4] * 2
    (crossing,) = crossed.crossings
    assert (crossing.entry.operation, crossing.entry.bytes, crossing.entry.ranks) == ("all_reduce", 16, (0, 1))
    assert [torch.frombuffer(bytearray(given), dtype=torch.float32).tolist() for given in crossing.given] == [
        [1.0] * 4,
        [2.0] * 4,
    ]


def test_it_records_who_asked_the_store_for_what():
    def stores(rank, world):
        dist.distributed_c10d._get_default_store().set("here", str(rank))

    assert set(carried(Board(2), stores)[1].stored) == {(0, "set", "0//here"), (1, "set", "0//here")}


def test_it_records_what_went_wrong():
    _, crossed = carried(Board(2), lambda rank, world: sums(rank, world) if rank else None)
    assert crossed.problem.kind == "deadlock"


def test_it_ends_when_its_record_is_asked_for_whoever_holds_its_ends():
    board = Board(2)
    kept = [os.dup(sock.fileno()) for sock in (board.ends.supervisor, *board.ends.ranks)]
    assert board.crossed() == boards.Crossed()
    assert not psutil.pid_exists(board._pid)
    for end in kept:
        os.close(end)


def given(rank, world):
    return wire.decode(bytes(session.current().given()))


def test_each_rank_is_given_its_own_and_nobody_elses():
    each = tuple((wire.encode({"x": torch.full((2,), rank)}),) for rank in range(3))
    run, crossed = carried(Board(3, each=each), lambda rank, world: given(rank, world)["x"].tolist())
    assert run.results == [[0, 0], [1, 1], [2, 2]]
    assert sorted(crossed.asked) == [(0, 0), (1, 0), (2, 0)] and not crossed.crossings and crossed.problem is None


def test_pieces_are_given_one_by_one_and_the_record_says_what_had_crossed_by_then():
    def in_turn(rank, world):
        first = given(rank, world)["x"]
        dist.barrier()
        return [first, given(rank, world)["x"], given(rank, world)["x"]]

    each = tuple(tuple(wire.encode({"x": 10 * rank + call}) for call in range(2)) for rank in range(2))
    run, crossed = carried(Board(2, each=each), in_turn)
    assert run.results == [[0, 1, 1], [10, 11, 11]]  # after the last piece it is the last again
    assert [by_then for rank, by_then in crossed.asked if rank == 1] == [0, 1, 1]


def test_where_nothing_is_given_a_wish_for_it_is_no_message():
    run, crossed = carried(Board(2), given)
    assert crossed.problem.kind == "protocol" and "a wish to 'given'" in str(run.error)


def test_a_case_has_inputs_for_all_of_its_ranks_or_for_none():
    with pytest.raises(ValueError, match="inputs for 1 ranks, where the case has 2"):
        Case(("values",), ranks=2, each=({"x": 1},))


def test_its_ends_serve_one_run_of_so_many_ranks():
    board = Board(2)
    with ranks_have(board.ends):
        with pytest.raises(RuntimeError, match="2 ranks, once"):
            run_ranks(sums, 3)
        run_ranks(sums, 2, card="off", backend="gloo")
        with pytest.raises(RuntimeError, match="2 ranks, once"):
            run_ranks(sums, 2)
    assert len(board.crossed().crossings) == 1


def test_more_than_an_exercise_needs_is_not_carried(monkeypatch):
    monkeypatch.setattr(boards, "MAX_RECORD_BYTES", 1000)
    run, crossed = carried(Board(2), lambda rank, world: [sums(rank, world) for _ in range(20)])
    assert "switchboard is gone" in str(run.error)
    assert 0 < len(crossed.crossings) < 20


def test_ranks_are_due_and_no_other_process_is():
    with witness.watch() as elsewhere:
        with witness.expects(2):
            for _ in range(3):
                if (pid := os.fork()) == 0:
                    os._exit(0)
                os.waitpid(pid, 0)
    assert elsewhere == ["process"]


@pytest.fixture
def hearing(tmp_path):
    with Hearing(tmp_path) as hearing:
        yield hearing


def graded(hearing, function):
    hearing.open("collectives.ring_all_reduce")
    play("collectives.ring_all_reduce", {"ring_all_reduce": function}, hearing.address)
    return hearing.close()


@pytest.mark.audit
def test_over_the_referees_socket_the_honest_ring_earns_everything(hearing):
    assert graded(hearing, honest).score == 8
    assert hearing.incidents == hearing.broken == []


def test_over_the_referees_socket_a_sum_that_never_crossed_earns_nothing(hearing):
    assert graded(hearing, pointed_elsewhere).score == 0


def test_what_the_kernel_says_of_what_crossed_is_not_asked(hearing, monkeypatch):
    from autograder import proctor

    sent = proctor.wire.encode
    monkeypatch.setattr(
        proctor.wire, "encode", lambda value: sent(value | {"crossed": None} if "elsewhere" in value else value)
    )
    assert graded(hearing, honest).score == 8
