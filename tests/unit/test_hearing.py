"""The referee's socket: one conversation for each graded cell, and no more than a few at once."""

import threading
import time
from multiprocessing.connection import Client

import msgspec
import pytest

from autograder.channel import Begin, Evidence, Refused, _to_kernel, play
from autograder.hearing import MAX_CONVERSATIONS, Hearing


@pytest.fixture
def hearing(tmp_path):
    with Hearing(tmp_path) as hearing:
        yield hearing


def exchange(hearing, *messages) -> list:
    answers = []
    with Client(hearing.address, family="AF_UNIX") as referee:
        for message in messages:
            referee.send_bytes(msgspec.msgpack.encode(message))
            answers.append(_to_kernel.decode(referee.recv_bytes()))
    return answers


def test_nothing_begins_before_a_graded_cell(hearing):
    (answer,) = exchange(hearing, Begin("views.patchify"))
    assert answer == Refused("no graded cell is running")
    assert hearing.incidents == ["no graded cell is running"]


def test_an_exercise_begins_once(hearing):
    hearing.open("views.patchify")
    exchange(hearing, Begin("views.patchify"))
    (answer,) = exchange(hearing, Begin("views.patchify"))
    assert isinstance(answer, Refused)
    assert hearing.close().score == 0


def test_another_exercise_does_not_begin(hearing):
    hearing.open("views.patchify")
    (answer,) = exchange(hearing, Begin("views.compact"))
    assert isinstance(answer, Refused) and "views.compact" in answer.why


def test_evidence_for_a_case_that_is_not_open_is_refused(hearing):
    hearing.open("views.patchify")
    assert isinstance(exchange(hearing, Begin("views.patchify"), Evidence(2, b""))[-1], Refused)


def test_an_honest_notebook_is_no_incident(hearing):
    hearing.open("views.patchify")
    play("views.patchify", {"patchify": lambda images, patch: images}, hearing.address)
    assert hearing.close().score == 0
    assert hearing.incidents == []


def test_evidence_after_the_cell_is_too_late(hearing):
    hearing.open("views.patchify")
    with Client(hearing.address, family="AF_UNIX") as referee:
        referee.send_bytes(msgspec.msgpack.encode(Begin("views.patchify")))
        referee.recv_bytes()
        hearing.close()
        referee.send_bytes(msgspec.msgpack.encode(Evidence(1, b"")))
        assert isinstance(_to_kernel.decode(referee.recv_bytes()), Refused)


def test_hanging_connections_are_few(hearing):
    hanging = [Client(hearing.address, family="AF_UNIX") for _ in range(MAX_CONVERSATIONS + 3)]
    deadline = time.monotonic() + 60
    while "more connections than a notebook needs" not in hearing.incidents and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "more connections than a notebook needs" in hearing.incidents
    for connection in hanging:
        connection.close()


def test_a_hearing_that_is_over_leaves_no_thread(tmp_path):
    before = set(threading.enumerate())
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        with Hearing(tmp_path / str(number)):
            pass
    deadline = time.monotonic() + 60
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) - before == set()
