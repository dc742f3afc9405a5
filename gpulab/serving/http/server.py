"""uvicorn that drains before it ends: requests in flight are answered to the end, new ones are refused with 503."""

import time

import uvicorn

from gpulab.serving.http.app import app_of
from gpulab.serving.http.limits import BACKLOG, Limits
from gpulab.serving.http.setup import Setup

CUT_S = 1.0
"""Seconds that clients are given to hear that they are cut off."""


class Server(uvicorn.Server):
    """grace_s: seconds that requests in flight have after a first SIGTERM or SIGINT. A second signal ends at once.

    Raises ValueError for a setup that cannot run.
    """

    def __init__(
        self, setup: Setup, limits: Limits, host: str, port: int, grace_s: float = 25.0, greeting: str = "", **others
    ) -> None:
        if not 0 <= grace_s < float("inf"):
            raise ValueError(f"a grace has a number of seconds, 0 or more, not {grace_s}")
        self.app = app_of(setup)
        self.app.add_middleware(limits, connections=lambda: len(self.server_state.connections))
        super().__init__(_config(self.app, limits, host, port, **others))
        self._grace_s, self._until, self._greeting = grace_s, None, greeting

    def drain(self) -> None:
        """From now on refuse, and end when nobody is in flight; at the latest after ``grace_s``."""
        self._until = time.monotonic() + self._grace_s
        self.app.state.admission.draining = True

    def handle_exit(self, sig, frame) -> None:
        if self.started and self._until is None:
            self._captured_signals.append(sig)
            return self.drain()
        self.force_exit = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        if self.started and self._greeting:
            print(self._greeting, flush=True)

    async def on_tick(self, counter: int) -> bool:
        if self._until is None:
            return await super().on_tick(counter)
        late_s = time.monotonic() - self._until
        if late_s >= 0:
            self.app.state.admission.cut_all()
        return not self.app.state.admission.in_flight or late_s > CUT_S or await super().on_tick(counter)


def _config(app, limits: Limits, host: str, port: int, **others) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host,
        port,
        http=limits.protocol(),
        backlog=BACKLOG,
        lifespan="on",
        access_log=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        **others,
    )
