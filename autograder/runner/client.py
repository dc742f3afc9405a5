"""Plays an exercise's cases in the learner's process, as the referee sends them."""

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from multiprocessing.connection import Client, Connection
from typing import Any

from autograder.protocol.channel import Begin, EventRecord, Evidence, Inputs, Refused, receive_in_kernel, send
from autograder.protocol.event_sink import sending_events
from autograder.protocol.rank_sockets import receive_sockets, use_sockets
from autograder.runner import interpreter
from autograder.runner.noticed import noticer
from autograder.runner.scenario_runner import run_case


def play(exercise: str, namespace: Mapping[str, Any], address: str) -> None:
    """Run every case of ``exercise`` that the referee at ``address`` sends."""
    with Client(address, family="AF_UNIX") as referee, closing(interpreter):
        noticer.look()
        send(referee, Begin(exercise))
        while isinstance(answer := receive_in_kernel(referee), Inputs):
            sockets = receive_sockets(referee, answer.ranks) if answer.ranks else None
            with sending_events(_event_sender(referee, answer.number)), use_sockets(sockets):
                data = run_case(exercise, namespace, answer.data)
            send(referee, Evidence(answer.number, data))
        noticer.look()
    if isinstance(answer, Refused):
        raise RuntimeError(f"the referee refused {exercise}: {answer.why}")


def _event_sender(referee: Connection, number: int) -> Callable[[bytes], None]:
    # The device emits from whichever thread works on it, and a frame may be written in two parts.
    lock = threading.Lock()

    def emit(data: bytes) -> None:
        with lock:
            send(referee, EventRecord(number, data))

    return emit
