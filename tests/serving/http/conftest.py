"""A server in a thread of the tests' process, on a port that is free."""

import threading
import time
from contextlib import contextmanager
from functools import cached_property

import httpx
import pytest

from benchmarks.serve_exchanges import metrics
from gpulab.serving import Budget
from gpulab.serving.http.limits import Limits
from gpulab.serving.http.server import Server
from gpulab.serving.http.setup import Setup

SMALL = Setup(blocks=64, size=4, context=200, budget=Budget(64, 8), queue=8)
QUICK = Limits(head_s=0.5, body_s=0.5, body_bytes=40_000, read_s=1.0)


class Served:
    """A server that runs. url: where. state: its application's, with admission and worker. client: OpenAI's own."""

    def __init__(self, server: Server, thread: threading.Thread) -> None:
        self.thread = thread
        self.server, self.state = server, server.app.state
        self.port = server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self):
        import openai

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def metrics(self) -> dict[str, float]:
        """Of those without a label."""
        with httpx.Client(base_url=self.url) as client:
            return {name.removeprefix("gpulab_"): value for name, value in metrics(client).items()}

    def wait_until_nobody_is_there(self, seconds: float = 60.0) -> None:
        """Raises AssertionError if blocks are held when the time is over."""
        until = time.monotonic() + seconds
        while self.state.admission.in_flight or self.state.worker.standing[:3] != (0, 0, 0):
            assert time.monotonic() < until, (self.state.admission.in_flight, self.state.worker.standing)
            time.sleep(0.02)


@contextmanager
def serving(setup: Setup = SMALL, limits: Limits = QUICK, **others):
    server = Server(setup, limits, "127.0.0.1", 0, log_level="error", **others)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Served(server, thread)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def served():
    with serving() as it:
        yield it


@pytest.fixture(autouse=True)
def nobody_is_left(request):
    """Whatever a test did: in the end no request is there and no block is held."""
    yield
    if "served" in request.fixturenames:
        request.getfixturevalue("served").wait_until_nobody_is_there()
