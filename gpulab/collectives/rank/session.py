"""What a rank's process knows of the run that it is part of."""

import itertools
import threading
from collections.abc import Callable, Sequence

import torch.distributed as dist

from gpulab.collectives.wire import Closed, Message, Wire


class Session:
    """The wire to the broker: numbered questions, answers in any order.

    ``stamp``: a number that goes into the journal with whatever is posted; a grader's instrument sets it.
    """

    def __init__(self, wire: Wire, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self.stamp: Callable[[], int] = lambda: 0
        self.host_us = 0.0
        self._wire = wire
        self._numbers = itertools.count()
        self._answers: dict[int, Message] = {}
        self._telling, self._hearing = threading.Lock(), threading.Lock()

    def fileno(self) -> int:
        """The one descriptor that the rank cannot do without."""
        return self._wire.sock.fileno()

    def tell(self, meta: dict, payload: Sequence = ()) -> None:
        with self._telling:
            self._wire.tell(meta, payload)

    def ask(self, meta: dict, payload: Sequence = ()) -> int:
        """The number by which the answer can be had."""
        number = next(self._numbers)
        self.tell({**meta, "number": number}, payload)
        return number

    def given(self) -> bytearray:
        """What the broker's owner has for this rank alone. Raises DistBackendError where it has nothing."""
        return self.answer(self.ask({"do": "given"}))[1]

    def answer(self, number: int) -> Message:
        """Waits for it. Raises DistBackendError when the run has failed."""
        if number in self._answers:
            return self._answers.pop(number)
        # Another thread's wait says nothing of whether this process is stuck.
        tells = threading.current_thread() is threading.main_thread()
        if tells:
            self.tell({"do": "wait", "number": number})
        while number not in self._answers:
            with self._hearing:
                if number not in self._answers:
                    self._hear()
        if tells:
            self.tell({"do": "go"})
        return self._answers.pop(number)

    def _hear(self) -> None:
        try:
            meta, payload = self._wire.hear()
        except Closed:
            raise dist.DistBackendError("the broker is gone") from None
        if "error" in meta:
            raise dist.DistBackendError(meta["error"])
        self._answers[meta["number"]] = (meta, payload)


_session: Session | None = None


def begin(session: Session) -> None:
    """This process is a rank from now on."""
    global _session
    _session = session


def current() -> Session:
    """Raises RuntimeError outside a rank."""
    if _session is None:
        raise RuntimeError("this process is no rank: gpulab.collectives.run_ranks starts them")
    return _session
