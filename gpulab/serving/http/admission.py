"""Admission control of the server: how many requests are let in, their tokens as they come, and clients that disconnect."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator

from gpulab.serving.http.errors import Draining, EngineFailed, Overloaded
from gpulab.serving.http.metrics import Metrics
from gpulab.serving.http.worker import Event, Worker
from gpulab.serving.requests import Request

CUT = "cut"
"""How a request ended that the end of the server has overtaken."""


class Admission:
    """Lives in the event loop. most: requests that may be in the server at once, running and waiting."""

    def __init__(self, worker: Worker, metrics: Metrics, most: int) -> None:
        self.worker, self.metrics, self._most = worker, metrics, most
        self._tickets: dict[str, Ticket] = {}
        self.lasted_s = deque([1.0], maxlen=64)
        """Seconds that requests took of late."""
        self.draining = False

    @property
    def in_flight(self) -> int:
        return len(self._tickets)

    def admit(self, request: Request) -> "Ticket":
        """Hand it to the engine. Raises Draining, EngineFailed or, where the queue is full, Overloaded."""
        if self.draining:
            raise Draining("this server is shutting down: ask another, or this one when it is back")
        if self.worker.dead:
            raise EngineFailed(self.worker.dead)
        if self.in_flight >= self._most:
            self.metrics.rejections.inc()
            lasts = sum(self.lasted_s) / len(self.lasted_s)
            raise Overloaded(
                f"the queue is full: {self.in_flight} requests are in the server, its limit", max(1, math.ceil(lasts))
            )
        ticket = self._tickets[request.name] = Ticket(self, request)
        self.metrics.prompt_tokens.inc(request.prompt_tokens)
        self.worker.submit(request)
        return ticket

    def deliver(self, events: list[Event]) -> None:
        """To the requests that they are about; a client that has left gets none."""
        for event in events:
            if event.name in self._tickets:
                self._tickets[event.name].deliver(event)

    def cut_all(self) -> None:
        """Each client that is still there is told that its answer is incomplete."""
        self.deliver([Event(name, over=CUT) for name in self._tickets])

    def leave(self, name: str) -> None:
        del self._tickets[name]


class Ticket:
    """A request that was let in. Whoever has it calls ``leave`` in the end, whatever came of it: that gives the blocks back."""

    def __init__(self, admission: Admission, request: Request) -> None:
        self._admission, self.request = admission, request
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._began = self._before = time.perf_counter()
        self._over: str | None = None
        self._left = False

    def deliver(self, event: Event) -> None:
        self._events.put_nowait(event)

    async def tokens(self) -> AsyncIterator[int]:
        """Each as it comes. Raises EngineFailed if a part of the engine broke a rule, Draining if the server ends."""
        while self._over is None:
            _, token, self._over, why = await self._events.get()
            if self._over == CUT:
                raise Draining("the server has shut down before the answer was complete")
            if self._over in ("failed", "refused", "aborted"):
                raise EngineFailed(why or f"the engine has {self._over} the request")
            if token is not None:
                self._count()
                yield token

    def leave(self) -> None:
        """A second time is no error."""
        if self._left:
            return
        self._left = True
        self._admission.leave(self.request.name)
        lasted_s, metrics = time.perf_counter() - self._began, self._admission.metrics
        self._admission.lasted_s.append(lasted_s)
        metrics.ended.labels(self._over or "aborted").inc()
        if self._over == "finished":
            metrics.whole.observe(lasted_s)
        else:
            self._admission.worker.abort(self.request.name)

    def _count(self) -> None:
        now, metrics = time.perf_counter(), self._admission.metrics
        metrics.generation_tokens.inc()
        (metrics.ttft if self._before == self._began else metrics.gap).observe(now - self._before)
        self._before = now
