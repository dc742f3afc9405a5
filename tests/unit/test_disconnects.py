"""Of a socket whose other end hangs up, whenever and however often, is heard, and it can be left."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest
import zmq

from autograder.sandbox.disconnects import Disconnects
from autograder.sandbox.manager import MAX_WAITING

MORE_THAN_WAIT_FOR_A_READER = 1100
"""ZeroMQ's own bound on messages that wait to be sent is 1,000, and graders' on those that wait to be read is 4."""


@pytest.fixture
def hangs_up(tmp_path):
    """The address of an end that takes each connection and ends it, and how often it has."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "end"))
    listener.listen(64)
    ended = []

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.close()
            ended.append(1)

    threading.Thread(target=serve, daemon=True).start()
    yield f"ipc://{tmp_path}/end", ended
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def until(happened, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_an_end_that_hangs_up_again_and_again_holds_nobody_up(hangs_up):
    address, ended = hangs_up
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        context.setsockopt(zmq.RCVHWM, MAX_WAITING)
        subscriber.reconnect_ivl = 1
        disconnects = Disconnects(subscriber)
        subscriber.connect(address)
        until(lambda: len(ended) > MORE_THAN_WAIT_FOR_A_READER)
        assert disconnects.any
        disconnects.close()


def test_where_nobody_hung_up_there_is_none(tmp_path):
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher, context.socket(zmq.SUB) as subscriber:
        publisher.bind(f"ipc://{tmp_path}/end")
        disconnects = Disconnects(subscriber)
        subscriber.connect(f"ipc://{tmp_path}/end")
        subscriber.subscribe(b"")
        until(lambda: publisher.send(b"heard") or subscriber.poll(10))
        assert not disconnects.any
        disconnects.close()


def test_the_monitor_ends_before_its_reader_does():
    """Between the two ZeroMQ would wait for ever to tell a reader that is gone."""
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber:
        disconnects = Disconnects(subscriber)
        monitored = []
        disconnects._socket = SimpleNamespace(monitor=lambda *given: monitored.append((given, reader.closed)))
        reader = disconnects._reader
        disconnects.close()
        subscriber.monitor(None, 0)
        assert monitored == [((None, 0), False)] and reader.closed
