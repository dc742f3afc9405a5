"""The referee's socket: one conversation for each graded cell, and no more than a few at once."""

import threading
import time
from multiprocessing.connection import Client

import msgspec
import pytest

from autograder.core.verdict import Verdict
from autograder.judge.grading_server import MAX_CONVERSATIONS, GradingServer
from autograder.protocol.channel import MOST_CODE, MOST_NOTICED, Begin, Evidence, Noticed, Refused, _to_kernel, send
from autograder.runner.client import play


@pytest.fixture
def server(tmp_path):
    with GradingServer(tmp_path) as server:
        yield server


def exchange(server, *messages) -> list:
    answers = []
    with Client(server.address, family="AF_UNIX") as referee:
        for message in messages:
            referee.send_bytes(msgspec.msgpack.encode(message))
            answers.append(_to_kernel.decode(referee.recv_bytes()))
    return answers


def test_nothing_begins_before_a_graded_cell(server):
    (answer,) = exchange(server, Begin("views.patchify"))
    assert answer == Refused("no graded cell is running")
    assert server.incidents == ["no graded cell is running"]


def test_an_exercise_begins_once(server):
    server.open("views.patchify")
    exchange(server, Begin("views.patchify"))
    (answer,) = exchange(server, Begin("views.patchify"))
    assert isinstance(answer, Refused)
    assert server.close().score == 0


def test_another_exercise_does_not_begin(server):
    server.open("views.patchify")
    (answer,) = exchange(server, Begin("views.compact"))
    assert isinstance(answer, Refused) and "views.compact" in answer.why


def test_evidence_for_a_case_that_is_not_open_is_refused(server):
    server.open("views.patchify")
    assert isinstance(exchange(server, Begin("views.patchify"), Evidence(2, b""))[-1], Refused)


def test_an_honest_notebook_is_no_incident(server):
    server.open("views.patchify")
    play("views.patchify", {"patchify": lambda images, patch: images}, server.address)
    assert server.close().score == 0
    assert server.incidents == []


def test_evidence_after_the_cell_is_too_late(server):
    server.open("views.patchify")
    with Client(server.address, family="AF_UNIX") as referee:
        referee.send_bytes(msgspec.msgpack.encode(Begin("views.patchify")))
        referee.recv_bytes()
        server.close()
        referee.send_bytes(msgspec.msgpack.encode(Evidence(1, b"")))
        assert isinstance(_to_kernel.decode(referee.recv_bytes()), Refused)


def test_hanging_connections_are_few(server):
    hanging = [Client(server.address, family="AF_UNIX") for _ in range(MAX_CONVERSATIONS + 3)]
    deadline = time.monotonic() + 60
    while "more connections than a notebook needs" not in server.incidents and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "more connections than a notebook needs" in server.incidents
    for connection in hanging:
        connection.close()


def test_a_server_that_is_closed_leaves_no_thread(tmp_path):
    before = set(threading.enumerate())
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        with GradingServer(tmp_path / str(number)):
            pass
    deadline = time.monotonic() + 60
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) - before == set()


def test_what_a_kernel_tells_of_lines_is_cut_and_counted(tmp_path):
    with GradingServer(tmp_path) as server, Client(server.address, family="AF_UNIX") as kernel:
        for _ in range(MOST_NOTICED + 10):
            send(kernel, Noticed("frames", "n" * 10_000, 1, "c" * 10_000))
        send(kernel, Begin("views.compact"))
        assert isinstance(_to_kernel.decode(kernel.recv_bytes()), Refused)
        assert len(server.noticed) == MOST_NOTICED
        assert {(len(one.name), len(one.code)) for one in server.noticed} == {(80, MOST_CODE)}


LENIENT = """
def sectors(addresses, item_bytes):
    if item_bytes not in (1, 2, 4, 8, 16) or len(addresses) > 32 or any(address < 0 for address in addresses):
        raise ValueError("no request")
    return len({address // 32 for address in addresses})
"""
RIGHT = LENIENT.replace("address < 0", "address < 0 or address % item_bytes")


def graded(server: GradingServer, source: str, **stopped) -> Verdict:
    names: dict = {}
    exec(source, names)
    server.open("hierarchy.sectors")
    play("hierarchy.sectors", names, server.address)
    return server.close(**stopped)


def test_a_lost_criterion_is_explained_when_it_is_asked_for_and_once(server):
    before = graded(server, LENIENT)
    ((after, unexplained),) = server.explained(10)
    assert (after.exercise, unexplained) == ("hierarchy.sectors", None) and (after.score, after.max_score) == (
        before.score,
        before.max_score,
    )
    (was,), (line,) = ([line for line in verdict.lines if line.status == "lost"] for verdict in (before, after))
    assert (was.misconception, line.misconception) == ("", "misaligned_let_through")
    assert line.message.startswith("You let a misaligned address through.") and line.read == "A warp asks for sectors"
    assert list(server.explained(10)) == []


def test_what_lost_nothing_or_lost_it_by_something_else_is_not_explained(server):
    graded(server, RIGHT)
    graded(server, LENIENT, helped=True)
    server.open("hierarchy.sectors")
    server.close("The kernel died.")
    assert list(server.explained(10)) == []


def test_a_judge_that_dies_while_it_explains_costs_no_verdict(server):
    verdict = graded(server, LENIENT)
    server._judge_server._process.kill()
    server._unexplained[0][1]._connection.close()
    assert list(server.explained(10)) == [] and verdict.score == 5


def test_judges_end_with_the_server_whether_or_not_they_were_asked(tmp_path):
    with GradingServer(tmp_path) as server:
        graded(server, LENIENT)
        ((_, judge),) = server._unexplained
    assert judge._connection.closed
