"""The engine in a thread of its own: what comes in goes through a queue, what comes out is delivered once a step."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gpulab.serving.engine import Engine
from gpulab.serving.requests import Live, Request

CLOSE_S = 5.0


class Event(NamedTuple):
    """Of one request. token: its next one, or None. over: how it ended, or None; then it is the last."""

    name: str
    token: int | None = None
    over: str | None = None
    why: str = ""


class Standing(NamedTuple):
    """The engine between two steps. Blocks are the allocator's."""

    waiting: int = 0
    running: int = 0
    blocks_used: int = 0
    blocks: int = 1
    preemptions: int = 0
    steps: int = 0


class Worker(threading.Thread):
    """Runs ``make()``, an engine, as long as there is somebody in it, and waits for the next one when there is not.

    make: called at once, with what wants to know who ended, so that an engine that cannot be made is no thread's matter; and
    once more after a part of it broke a rule, which ends all that are in it with ``why``. ``deliver``: set before ``start``,
    called with the events of a step in this thread.
    """

    deliver: Callable[[list[Event]], None]

    def __init__(self, make: Callable[[Callable[[Live], None]], Engine]) -> None:
        super().__init__(name="gpulab-engine", daemon=True)
        self._make = make
        self._in: queue.SimpleQueue[tuple[str, Request | str]] = queue.SimpleQueue()
        self._events: list[Event] = []
        self._there: set[str] = set()
        self._steps = self._preempted = 0
        self._step_began: float | None = None
        self.standing = Standing()
        self._engine = make(self._ended)

    def submit(self, request: Request) -> None:
        self._in.put(("submit", request))

    def abort(self, name: str) -> None:
        """One that is not known, or has ended, is no error."""
        self._in.put(("abort", name))

    def close(self) -> None:
        """End the thread, and all that are in the engine with it. One that never ends its step is left to the process's end."""
        self._in.put(("close", ""))
        self.join(CLOSE_S)

    @property
    def in_step_s(self) -> float:
        """Seconds that the present step has lasted; 0 between two."""
        began = self._step_began
        return time.monotonic() - began if began is not None else 0.0

    def run(self) -> None:
        while self._take_in():
            if self._engine.busy:
                self._step_began = time.monotonic()
                self._step()
                self._step_began = None
            self._publish()
        for name in list(self._there):
            self._engine.abort(name)
        self._publish()

    def _take_in(self) -> bool:
        """All that has come; waits for something where nobody is in the engine. Whether to go on."""
        wait = not self._engine.busy
        while wait or not self._in.empty():
            what, item = self._in.get()
            if what == "close":
                return False
            if what == "submit":
                self._there.add(item.name)
                self._engine.submit(replace(item, arrival_us=self._engine.now_us))
            else:
                self._engine.abort(item)
            wait = False
        return True

    def _step(self) -> None:
        try:
            computed = self._engine.step()
        except Exception as error:
            return self._start_anew(error)
        self._steps += 1
        self._preempted += self._engine.steps[-1].preempted if self._engine.steps else 0
        self._events = [*(Event(live.name, live.ids[-1]) for live in computed), *self._events]

    def _ended(self, live: Live) -> None:
        self._there.discard(live.name)
        self._events.append(Event(live.name, over=live.state))

    def _start_anew(self, error: Exception) -> None:
        """What the parts of the engine hold cannot be trusted any more."""
        why = f"{type(error).__name__}: {error}"
        self._events += [Event(name, over="failed", why=why) for name in self._there]
        self._there.clear()
        self._engine = self._make(self._ended)

    def _publish(self) -> None:
        blocks = self._engine.blocks
        there = (len(self._engine.waiting), len(self._engine.running))
        self.standing = Standing(*there, blocks.total - blocks.free, blocks.total, self._preempted, self._steps)
        if self._events:
            events, self._events = self._events, []
            self.deliver(events)
