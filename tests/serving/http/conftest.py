"""A server in a thread of the tests' process, on a port that is free."""

import threading
import time
from contextlib import contextmanager

import httpx
import openai
import pytest
import uvicorn

from gpulab.serving import Budget
from gpulab.serving.http.__main__ import config
from gpulab.serving.http.app import Setup
from gpulab.serving.http.patience import Patience

SMALL = Setup(blocks=64, size=4, context=200, budget=Budget(64, 8), queue=8)
QUICK = Patience(head_s=0.5, body_s=0.5, body_bytes=40_000, read_s=1.0)


class Served:
    """url: of the server. state: its application's, with the desk and the worker."""

    def __init__(self, server: uvicorn.Server, app) -> None:
        self.port = server.servers[0].sockets[0].getsockname()[1]
        self.url, self.state = f"http://127.0.0.1:{self.port}", app.state
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def metrics(self) -> dict[str, float]:
        """Of those without a label."""
        lines = [
            line.split()
            for line in httpx.get(f"{self.url}/metrics").text.splitlines()
            if line[0] != "#" and "{" not in line
        ]
        return {name.removeprefix("gpulab_"): float(value) for name, value in lines}

    def wait_until_nobody_is_there(self, seconds: float = 60.0) -> None:
        """Raises AssertionError if blocks are held when the time is over."""
        until = time.monotonic() + seconds
        while self.state.desk.there or self.state.worker.standing[:3] != (0, 0, 0):
            assert time.monotonic() < until, (self.state.desk.there, self.state.worker.standing)
            time.sleep(0.02)


@contextmanager
def serving(setup: Setup = SMALL, patience: Patience = QUICK):
    made = config(setup, patience, "127.0.0.1", 0, log_level="error")
    server = uvicorn.Server(made)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Served(server, made.app)
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
