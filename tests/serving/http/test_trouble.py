"""Clients that leave, that come too many, that ask nonsense, that are slow: each is told so, and harms nobody else."""

import base64
import http.client
import io
import json
import select
import socket
import time
from dataclasses import replace

import httpx
import openai
import pytest
from PIL import Image

from gpulab.serving import Budget, Plan
from gpulab.serving.http.lingering import LINGER_S
from gpulab.serving.http.setup import Setup
from tests.serving.http.conftest import QUICK, SMALL, serving

PROMPT = "move to the red block"
LONG = {"model": "tinyvla", "prompt": PROMPT, "max_tokens": 190}


def picture(width: int, height: int, kind: str) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, kind)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def many_scans() -> str:
    """A progressive JPEG whose last scan comes again and again: each costs a pass over all pixels."""
    file = io.BytesIO()
    Image.new("RGB", (256, 256)).save(file, "jpeg", progressive=True)
    body, scan = file.getvalue()[:-2], file.getvalue()[file.getvalue().rindex(b"\xff\xda") : -2]
    return f"data:image/jpeg;base64,{base64.b64encode(body + 900 * scan).decode()}"


def ask(served, **fields) -> httpx.Response:
    return httpx.post(f"{served.url}/v1/completions", json={"model": "tinyvla", "prompt": PROMPT} | fields)


def works(served) -> bool:
    return len(ask(served, max_tokens=3).json()["choices"][0]["text"].split()) == 3


def test_a_client_that_closes_its_stream_gives_its_blocks_back(served):
    ended = served.metrics()["num_steps_total"]
    stream = served.client.completions.create(**LONG, stream=True)
    next(iter(stream))
    stream.close()
    served.wait_until_nobody_is_there()
    assert served.metrics()["num_steps_total"] - ended < 150, "it went on after its client had left"


@pytest.mark.parametrize("late", [b"\r\n", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_a_client_that_sends_more_and_hangs_up_gives_its_blocks_back(served, late):
    before, body = served.metrics()["num_steps_total"], json.dumps(LONG).encode()
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
        connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.02)
        connection.sendall(late)
        time.sleep(0.02)
    served.wait_until_nobody_is_there()
    assert served.metrics()["num_steps_total"] - before < 150


def test_a_client_that_hangs_up_before_a_whole_answer_gives_its_blocks_back(served):
    before = served.metrics()["num_steps_total"]
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{served.url}/v1/completions", json=LONG, timeout=httpx.Timeout(60, read=0.05))
    served.wait_until_nobody_is_there()
    assert served.metrics()["num_steps_total"] - before < 150


def test_who_comes_when_the_queue_is_full_is_told_when_to_come_again():
    with serving(Setup(blocks=64, size=4, context=200, budget=Budget(64, 1), queue=1)) as served:
        streams = [served.client.completions.create(**LONG, stream=True) for _ in range(2)]
        with pytest.raises(openai.RateLimitError) as refused:
            served.client.completions.create(**LONG)
        assert int(refused.value.response.headers["Retry-After"]) >= 1
        assert (
            refused.value.body["code"] == "queue_full"
            and "2 requests are in the server" in refused.value.body["message"]
        )
        for stream in streams:
            assert len(list(stream)) == 191
        served.wait_until_nobody_is_there()
        assert works(served) and served.metrics()["admission_rejections_total"] == 1


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"prompt": "a" * 9000}, 400, "aaaaaa' is no token"),
        ({"prompt": "move to Paris"}, 400, "'Paris' is no token of this model"),
        ({"prompt": ""}, 400, "no token"),
        ({"prompt": [1, 33]}, 400, "33 is no token"),
        ({"prompt": [1, True]}, 400, "valid prompt"),
        ({"prompt": ["move", "go"]}, 400, "2 prompts in one request"),
        ({"prompt": 7}, 400, "prompt"),
        ({"prompt": [{}] * 5000}, 400, "up to 4,096 whole numbers"),
        ({"prompt": ["go"] * 5000}, 400, "up to 4,096"),
        ({"n": True}, 400, "n = True is not served"),
        ({"max_tokens": int("9" * 4300)}, 400, "2147483648"),
        ({"model": "gpt-9"}, 404, "ask for tinyvla"),
        ({"max_tokens": 0}, 400, "greater than or equal to 1"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
        ({"max_tokens": 10**30}, 400, "2147483648"),
        ({"max_tokens": 196}, 400, "5 tokens of prompt and 196 of answer are 201: 200 at most"),
        ({"prompt": [1] * 4000, "max_tokens": 1}, 400, "200 at most"),
        ({"temperature": 0.7}, 400, "temperature = 0.7 is not served"),
        ({"n": 2}, 400, "n = 2 is not served"),
        ({"stop": ["red"]}, 400, "stop"),
        ({"logprobs": 5}, 400, "logprobs"),
        ({"logit_bias": {"3": 5}}, 400, "logit_bias"),
    ],
)
def test_what_is_not_served_is_refused_with_a_reason(served, fields, status, says):
    answer = ask(served, **fields)
    error = answer.json()["error"]
    assert answer.status_code == status and says in error["message"], error
    assert (
        len(error["message"]) < 400
        and error["type"] == "invalid_request_error"
        and set(error) == {"message", "type", "param", "code"}
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0},
        {"n": 1},
        {"stop": []},
        {"seed": 4},
        {"user": "me"},
        {"top_p": 0.5},
        {"logprobs": False},
        {"stream": None},
        {"response_format": {"type": "text"}},
    ],
)
def test_what_changes_nothing_is_no_error(served, fields):
    assert ask(served, **fields).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 9000])
def test_a_body_that_is_no_request_is_refused(served, body):
    answer = httpx.post(f"{served.url}/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]["message"]
    assert works(served)


def test_a_body_of_another_kind_is_told_which_is_expected(served):
    answer = httpx.post(
        f"{served.url}/v1/completions", content=json.dumps(LONG), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 400 and "expected application/json" in answer.json()["error"]["message"]


@pytest.mark.parametrize("probe", ["health", "ready", "metrics"])
def test_a_probe_may_ask_for_the_head_alone(served, probe):
    assert httpx.head(f"{served.url}/{probe}").status_code == 200


def test_a_part_that_announces_a_picture_has_one(served):
    content = [{"type": "image_url"}, {"type": "text", "text": PROMPT}]
    with pytest.raises(openai.BadRequestError, match="has an image_url"):
        served.client.chat.completions.create(model="tinyvla", messages=[{"role": "user", "content": content}])


def test_another_path_and_another_method_are_told_in_the_same_shape(served):
    assert httpx.get(f"{served.url}/v1/completions").headers["Allow"] == "POST"
    for answer, status in ((httpx.get(f"{served.url}/v2"), 404), (httpx.get(f"{served.url}/v1/completions"), 405)):
        assert answer.status_code == status and answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        ("https://example.org/a.png", "fetches nothing"),
        ("data:image/png;base64,AAAA", "cannot be read"),
        ("data:image/png;base64,%%%", "cannot be read"),
        (picture(16, 16, "gif"), "cannot be read"),
        (picture(513, 2, "png"), "512 a side at most"),
        ("data:image/png;base64,é", "cannot be read"),
        (many_scans(), "more than 16 scans"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(served, picture, says):
    content = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": PROMPT}]
    with pytest.raises(openai.BadRequestError, match=says):
        served.client.chat.completions.create(model="tinyvla", messages=[{"role": "user", "content": content}])


def test_a_body_that_is_too_large_is_refused_without_being_kept(served):
    answer = ask(served, user="a" * 50_000)
    assert answer.status_code == 413 and "40,000 bytes" in answer.json()["error"]["message"]

    def endless():
        for _ in range(10_000):
            yield b" " * 10_000

    try:
        assert httpx.post(f"{served.url}/v1/completions", content=endless()).status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
        pass
    assert works(served)


def _answer(connection: socket.socket) -> bytes:
    connection.settimeout(60)
    got = b""
    while piece := connection.recv(4096):
        got += piece
    return got


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", b""),
        (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n", b"408"),
        (
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
            b"408",
        ),
        (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /hea", b"408"),
        (b"nonsense\r\n\r\n", b'"message":"Invalid HTTP request'),
    ],
)
def test_a_client_that_does_not_go_on_is_cut_off(served, sent, says):
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(sent)
        assert says in _answer(connection)
    assert works(served)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"POST /v1/completions HTTP/1.1\r\nX: ", b"408"),
        (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + b"a" * 300_000, b"413"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_who_goes_on_sending_can_read_why_nobody_listens(served, sent, says):
    """A connection that is closed with bytes unread would be reset, and the answer lost."""
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(sent)
        select.select([connection], [], [], 60)
        for _ in range(3):
            connection.sendall(b"a")
            time.sleep(0.05)
        assert says in _answer(connection)
    assert works(served)


def test_who_sends_without_end_is_cut_off(served):
    with socket.create_connection(("127.0.0.1", served.port)) as connection, pytest.raises(OSError):
        connection.sendall(b"nonsense\r\n\r\n")
        until = time.monotonic() + 10 * LINGER_S
        while time.monotonic() < until:
            connection.sendall(b"a")
            time.sleep(0.02)
    assert works(served)


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off_too(served):
    """Slow loris: each byte alone is in time."""
    with socket.create_connection(("127.0.0.1", served.port)) as connection, pytest.raises(OSError):
        for byte in b"POST /v1/completions HTTP/1.1\r\nX: " + b"a" * 200:  # ten seconds of them, at least
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
    assert works(served)


def test_many_slow_clients_keep_nobody_waiting(served):
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(200)]
    try:
        for connection in slow:
            connection.sendall(b"POST /v1/comp")
        assert works(served)
    finally:
        for connection in slow:
            connection.close()


def test_where_too_many_connections_are_open_probes_are_answered_and_others_come_again():
    with serving(limits=replace(QUICK, connections=3, head_s=5.0)) as served:
        idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(3)]
        full = ask(served)
        assert full.status_code == 429 and full.headers["Retry-After"] == "1"
        assert full.json()["error"] | {"param": None} == {
            "message": "3 connections are open at most",
            "type": "overloaded_error",
            "param": None,
            "code": "too_many_connections",
        }
        assert {httpx.get(f"{served.url}/{probe}").status_code for probe in ("health", "ready", "metrics")} == {200}
        for connection in idle:
            connection.close()
        until = time.monotonic() + 60
        while len(served.server.server_state.connections) > 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert works(served)


def test_a_client_that_reads_nothing_holds_no_block(served):
    """Its answer is computed to the end, or not: the engine does not wait for it."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request(
        "POST", "/v1/completions", json.dumps(LONG | {"stream": True}), {"Content-Type": "application/json"}
    )
    time.sleep(0.1)
    assert works(served)
    served.wait_until_nobody_is_there()
    connection.close()


class Breaks:
    """A scheduler that plans for whom there is no room, in its fourth step."""

    steps = 0

    def plan(self, waiting, running, blocks, budget):
        Breaks.steps += 1
        live = (*running, *waiting)[0]
        blocks.reserve(live, live.left)
        return Plan({live: live.left + (Breaks.steps == 4)})


def test_a_scheduler_that_breaks_a_rule_ends_those_who_are_there_and_nobody_else():
    Breaks.steps = 0
    with serving(Setup(f"{__file__}:Breaks", blocks=64, size=4, context=200, budget=SMALL.budget)) as served:
        pieces = served.client.completions.create(**LONG, stream=True)
        with pytest.raises(openai.APIError, match="has 1 left to compute"):
            list(pieces)
        served.wait_until_nobody_is_there()
        assert works(served)


RAISES = """
class Rude(Exception):
    def __str__(self):
        raise ValueError
class Once:
    steps, made = 0, 0
    def __init__(self):
        Once.made += 1
        if Once.made > {lasts}:
            raise SystemExit
    def plan(self, waiting, running, blocks, budget):
        Once.steps += 1
        if Once.steps == 4:
            raise {error}
        from gpulab.serving import Continuous
        return Continuous().plan(waiting, running, blocks, budget)
"""


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "Rude", "ValueError('\\ud800')"])
def test_whatever_a_scheduler_raises_it_ends_those_who_are_there_and_nobody_else(tmp_path, error):
    (tmp_path / "mine.py").write_text(RAISES.format(error=error, lasts=9))
    with serving(replace(SMALL, scheduler=f"{tmp_path}/mine.py:Once")) as served:
        with pytest.raises(openai.APIError):
            list(served.client.completions.create(**LONG, stream=True))
        served.wait_until_nobody_is_there()
        (tmp_path / "mine.py").write_text("class Once(:\n")
        assert works(served) and httpx.get(f"{served.url}/health").status_code == 200


def test_where_no_engine_can_be_made_any_more_everyone_is_told(tmp_path):
    (tmp_path / "mine.py").write_text(RAISES.format(error="ValueError", lasts=1))
    with serving(replace(SMALL, scheduler=f"{tmp_path}/mine.py:Once")) as served:
        with pytest.raises(openai.APIError):
            list(served.client.completions.create(**LONG, stream=True))
        served.wait_until_nobody_is_there()
        answer = ask(served)
        assert answer.status_code == 500 and "the engine has stopped" in answer.json()["error"]["message"]
        assert httpx.get(f"{served.url}/health").status_code == httpx.get(f"{served.url}/ready").status_code == 503


def test_messages_that_are_many_are_not_looked_at(served):
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={"model": "tinyvla", "messages": [0] * 8000})
    assert answer.status_code == 400 and "8000 of them: 64 at most" in answer.json()["error"]["message"]


def test_the_header_alone_shows_that_a_body_is_too_large(served):
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n"
        )
        assert b"413" in _answer(connection)


def test_a_client_that_asks_much_and_reads_nothing_is_cut_off(served):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", served.port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 900)
        time.sleep(QUICK.read_s)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(300):
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
                time.sleep(0.2)
    assert works(served)
