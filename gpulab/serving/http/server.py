"""uvicorn that drains before it ends: requests in flight are answered to the end, new ones are refused with 503."""

import time

import uvicorn

from gpulab.serving.http.app import app_of
from gpulab.serving.http.limits import Limits
from gpulab.serving.http.setup import Setup

CUT_S = 1.0
"""Seconds that clients are given to hear that they are cut off."""


class Server(uvicorn.Server):
    """grace_s: seconds that requests in flight have after a first SIGTERM or SIGINT. A second signal ends at once."""

    def __init__(self, setup: Setup, limits: Limits, host: str, port: int, grace_s: float = 25.0, **others) -> None:
        self.app = app_of(setup)
        self.app.add_middleware(limits, connections=lambda: len(self.server_state.connections))
        super().__init__(_config(self.app, limits, host, port, **others))
        self._grace_s, self._until = grace_s, float("inf")

    def drain(self) -> None:
        """From now on refuse, and end when nobody is in flight; at the latest after ``grace_s``."""
        self._until = time.monotonic() + self._grace_s
        self.app.state.admission.draining = True

    def handle_exit(self, sig, frame) -> None:
        if self.started and self._until == float("inf"):
            self._captured_signals.append(sig)
            return self.drain()
        self.force_exit = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        late_s = time.monotonic() - self._until
        if late_s >= 0:
            self.app.state.admission.end_all("the server has shut down before the answer was complete")
        drained = self._until < float("inf") and not self.app.state.admission.in_flight
        return drained or late_s > CUT_S or await super().on_tick(counter)


def _config(app, limits: Limits, host: str, port: int, **others) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host,
        port,
        http=limits.protocol(),
        lifespan="on",
        access_log=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        **others,
    )
