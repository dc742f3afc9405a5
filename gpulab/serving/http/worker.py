"""The engine in a thread of its own: what comes in goes through a queue, what comes out is delivered once a step."""

import queue
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gpulab.serving.engine import Engine
from gpulab.serving.requests import Live, Request

CLOSE_S, LONG_STEP_S = 5.0, 1.0
MOST_CHARACTERS = 500
"""Of a reason that is sent to clients."""


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
    called with the events of a step in this thread. ``broken``: why no engine could be made any more; then every request fails.
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
        self.broken = ""
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
        self.join(CLOSE_S if self.in_step_s < LONG_STEP_S else 0)

    @property
    def dead(self) -> str:
        """Why it computes nothing any more; empty while it does."""
        return self.broken or ("" if self.is_alive() else "the engine has stopped")

    @property
    def in_step_s(self) -> float:
        """Seconds that the present step has lasted; 0 between two."""
        began = self._step_began
        return time.monotonic() - began if began is not None else 0.0

    def run(self) -> None:
        while self._take_in():
            if self._engine.busy:
                self._step_began = time.monotonic()
                self._guarded(self._step)
                self._step_began = None
            self._publish()
        for name in list(self._there):
            self._guarded(self._engine.abort, name)
        self._publish()

    def _guarded(self, act: Callable, *values) -> None:
        """A learner's scheduler may raise anything, SystemExit too."""
        try:
            act(*values)
        except BaseException as error:
            self._start_anew(error)

    def _take_in(self) -> bool:
        """All that has come; waits for something where nobody is in the engine. Whether to go on."""
        wait = not self._engine.busy
        while wait or not self._in.empty():
            what, item = self._in.get()
            if what == "close":
                return False
            self._guarded(self._submit if what == "submit" else self._engine.abort, item)
            wait = False
        return True

    def _submit(self, request: Request) -> None:
        if self.broken:
            return self._events.append(Event(request.name, over="failed", why=self.broken))
        self._there.add(request.name)
        self._engine.submit(replace(request, arrival_us=self._engine.now_us))

    def _step(self) -> None:
        computed = self._engine.step()
        self._steps += 1
        self._preempted += self._engine.steps[-1].preempted if self._engine.steps else 0
        self._events = [*(Event(live.name, live.ids[-1]) for live in computed), *self._events]

    def _ended(self, live: Live) -> None:
        self._there.discard(live.name)
        self._events.append(Event(live.name, over=live.state))

    def _start_anew(self, error: BaseException) -> None:
        """What the parts of the engine hold cannot be trusted any more."""
        why = _reason(error)
        self._events += [Event(name, over="failed", why=why) for name in self._there]
        self._there.clear()
        try:
            self._engine = self._make(self._ended)
        except BaseException as again:
            self._engine, self.broken = _Nothing(self._engine.blocks.total), f"the engine has stopped: {_reason(again)}"

    def _publish(self) -> None:
        blocks = self._engine.blocks
        there = (len(self._engine.waiting), len(self._engine.running))
        self.standing = Standing(*there, blocks.total - blocks.free, blocks.total, self._preempted, self._steps)
        if self._events:
            events, self._events = self._events, []
            self.deliver(events)


class _Nothing:
    """In place of an engine that cannot be made."""

    busy, waiting, running = False, (), ()

    def __init__(self, total: int) -> None:
        self.blocks, self.total, self.free = self, total, total

    def abort(self, name: str) -> None:
        """Nobody is in it."""


def _reason(error: BaseException) -> str:
    """For clients, in a line; the log has all of it."""
    try:
        traceback.print_exception(error)
        said = f"{type(error).__name__}: {error}"
    except Exception:
        said = type(error).__name__
    return said.encode("utf-8", "replace").decode()[:MOST_CHARACTERS]
