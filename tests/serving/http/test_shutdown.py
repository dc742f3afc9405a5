"""A server that is told to end: who is in flight is answered to the end, who comes is refused, and it does end."""

import socket
import sys
from dataclasses import replace

import httpx
import openai
import pytest

from gpulab.serving import Budget
from gpulab.serving.http.__main__ import main
from gpulab.serving.http.server import Server
from gpulab.serving.http.setup import Setup
from tests.serving.http.conftest import QUICK, serving
from tests.serving.http.test_trouble import LONG, PROMPT, ask, works

ROOMY = Setup(blocks=512, size=4, context=450, budget=Budget(64, 8), queue=8)
LONGER = LONG | {"max_tokens": 400}


def test_what_runs_is_finished_and_what_comes_is_refused():
    with serving(ROOMY) as served:
        stream = served.client.completions.create(**LONGER, stream=True)
        next(iter(stream))
        served.server.drain()
        with pytest.raises(openai.InternalServerError) as refused:
            served.client.completions.create(model="tinyvla", prompt=PROMPT)
        answer = refused.value.response
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "draining"
        assert answer.headers["Retry-After"] == "1" and answer.headers["Connection"] == "close"
        assert len(list(stream)) == 400
        served.thread.join(10)
        assert not served.thread.is_alive()


def test_readiness_ends_with_the_drain_and_liveness_with_the_server():
    with serving(ROOMY) as served:
        assert {httpx.get(f"{served.url}/{probe}").status_code for probe in ("ready", "health")} == {200}
        stream = served.client.completions.create(**LONGER, stream=True)
        next(iter(stream))
        served.server.drain()
        ready = httpx.get(f"{served.url}/ready")
        assert ready.status_code == 503 and ready.json()["error"]["message"] == "shutting down"
        assert httpx.get(f"{served.url}/health").status_code == 200
        stream.close()


def test_what_is_not_finished_within_the_grace_is_told_so():
    with serving(ROOMY, grace_s=0.1) as served:
        stream = served.client.completions.create(**LONGER, stream=True)
        next(iter(stream))
        served.server.drain()
        with pytest.raises(openai.APIError, match="shut down before the answer was complete") as cut:
            list(stream)
        assert cut.value.code == "draining"
        served.thread.join(10)
        assert not served.thread.is_alive()


STALLS = """
import time
from pathlib import Path
from gpulab.serving import Plan
class Stalls:
    steps = 0
    def plan(self, waiting, running, blocks, budget):
        self.steps += 1
        while self.steps == 2 and not Path({flag!r}).exists():
            time.sleep(0.01)
        live = (*running, *waiting)[0]
        blocks.reserve(live, live.left)
        return Plan({{live: live.left}})
"""


def test_an_engine_that_stalls_is_neither_alive_nor_ready(tmp_path):
    file, flag = tmp_path / "mine.py", tmp_path / "flag"
    file.write_text(STALLS.format(flag=str(flag)))
    with serving(replace(ROOMY, scheduler=f"{file}:Stalls", stalled_s=0.3)) as served:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{served.url}/v1/completions", json=LONG, timeout=httpx.Timeout(60, read=0.6))
        for probe in ("health", "ready"):
            answer = httpx.get(f"{served.url}/{probe}")
            assert answer.status_code == 503 and "in one step for" in answer.json()["error"]["message"]
        flag.touch()
        served.wait_until_nobody_is_there()
        assert works(served) and httpx.get(f"{served.url}/health").status_code == 200


def test_an_engine_that_has_stopped_refuses_and_says_so():
    with serving() as served:
        served.state.worker.close()
        assert httpx.get(f"{served.url}/health").status_code == 503
        answer = ask(served, max_tokens=3)
        assert answer.status_code == 500 and answer.json()["error"]["message"] == "the engine has stopped"


def test_a_body_that_is_half_there_is_refused_when_the_server_ends():
    with (
        serving(limits=replace(QUICK, body_s=60.0)) as served,
        socket.create_connection(("127.0.0.1", served.port)) as one,
    ):
        one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{")
        httpx.get(f"{served.url}/health")
        served.server.drain()
        one.settimeout(30)
        assert b"503" in one.recv(4096)


@pytest.mark.parametrize("grace_s", [-1.0, float("inf"), float("nan")])
def test_a_grace_that_cannot_end_is_refused(grace_s):
    with pytest.raises(ValueError, match="a number of seconds"):
        Server(ROOMY, QUICK, "127.0.0.1", 0, grace_s)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--port", "99999"], "a port is a number from 0 to 65535"),
        (["--device", "nonsense"], "nonsense"),
        (["--blocks", "0"], "counted from 1"),
        (["--grace", "inf"], "a number of seconds"),
        (["--scheduler", "fastest"], "a scheduler is static, continuous, chunked"),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_a_sentence(monkeypatch, capsys, option, says):
    monkeypatch.setattr(sys, "argv", ["gpulab.serving.http", *option])
    with pytest.raises(SystemExit) as ended:
        main()
    assert says in f"{ended.value}{capsys.readouterr().err}"
