"""Admission control of the server: how many requests are let in, their tokens as they come, and clients that disconnect."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator

from gpulab.serving.http.errors import EngineFailed, Overloaded
from gpulab.serving.http.metrics import Metrics
from gpulab.serving.http.worker import News, Worker
from gpulab.serving.requests import Request


class Desk:
    """Lives in the event loop. most: requests that may be there at once, running and waiting; who comes then is refused."""

    def __init__(self, worker: Worker, metrics: Metrics, most: int) -> None:
        self.worker, self.metrics, self._most = worker, metrics, most
        self._there: dict[str, Ticket] = {}
        self.lasted = deque([1.0], maxlen=64)
        """Seconds that requests took of late."""

    @property
    def there(self) -> int:
        return len(self._there)

    def take(self, request: Request) -> "Ticket":
        """Hand it to the engine. Raises Overloaded, with the seconds that a place takes to become free, if none is."""
        if self.there >= self._most:
            self.metrics.rejections.inc()
            lasts = sum(self.lasted) / len(self.lasted)
            raise Overloaded(f"{self.there} requests are here already, and no more may be", max(1, math.ceil(lasts)))
        ticket = self._there[request.name] = Ticket(self, request)
        self.metrics.prompt_tokens.inc(request.prompt_tokens)
        self.worker.submit(request)
        return ticket

    def told(self, news: list[News]) -> None:
        """What the worker says; whoever has left is not told."""
        for item in news:
            if item.name in self._there:
                self._there[item.name].hear(item)

    def leaves(self, name: str) -> None:
        del self._there[name]


class Ticket:
    """A request that was let in. Whoever has it calls ``leave`` in the end, whatever came of it: that gives the blocks back."""

    def __init__(self, desk: Desk, request: Request) -> None:
        self._desk, self.request = desk, request
        self._mail: asyncio.Queue[News] = asyncio.Queue()
        self._began = self._before = time.perf_counter()
        self._over: str | None = None
        self._left = False

    def hear(self, news: News) -> None:
        self._mail.put_nowait(news)

    async def tokens(self) -> AsyncIterator[int]:
        """Each as it comes. Raises EngineFailed if a part of the engine broke a rule."""
        while self._over is None:
            _, token, self._over, why = await self._mail.get()
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
        self._desk.leaves(self.request.name)
        lasted, metrics = time.perf_counter() - self._began, self._desk.metrics
        self._desk.lasted.append(lasted)
        metrics.ended.labels(self._over or "aborted").inc()
        if self._over is None:
            self._desk.worker.abort(self.request.name)
        elif self._over == "finished":
            metrics.whole.observe(lasted)

    def _count(self) -> None:
        now, metrics = time.perf_counter(), self._desk.metrics
        metrics.generation_tokens.inc()
        (metrics.ttft if self._before == self._began else metrics.gap).observe(now - self._before)
        self._before = now
