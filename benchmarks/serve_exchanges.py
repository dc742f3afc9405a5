"""What the model's server answers: a stream as it is on the wire, refusals, a client that leaves, a shutdown, a crash.

Asked of a server with room for two requests that run and two that wait, so that its queue is soon full. ``exchanges`` is
what `benchmarks/serve_model.py exchanges` keeps for the book.
"""

import signal
import socket
import time
from contextlib import ExitStack, contextmanager

import httpx

ROOM = {"requests": 2, "queue": 2}
"""Options of the server that is asked."""
ASK = {"model": "tinyvla", "prompt": "move to the red block", "max_tokens": 12}
LONG = ASK | {"max_tokens": 250, "stream": True}
THERE = ("gpulab_num_requests_running", "gpulab_num_requests_waiting", "gpulab_kv_cache_usage_perc")
"""What is 0 where nobody is in the server."""
WRONG = {
    "no JSON": {"content": b'{"model": ', "headers": {"Content-Type": "application/json"}},
    "a word that the model lacks": {"json": ASK | {"prompt": "move to Paris"}},
    "another model": {"json": ASK | {"model": "gpt-4"}},
    "more tokens than the context": {"json": ASK | {"max_tokens": 300}},
    "a temperature": {"json": ASK | {"temperature": 0.7}},
    "a body of 300 kB": {"json": ASK | {"user": "a" * 300_000}},
}


def exchanges(url: str, process) -> dict:
    """``stream``: lines. ``refused``, ``overload``, ``shutdown``: answers. ``left``: shares of the KV cache. ``metrics``: by name,
    those without a label. It ends the process."""
    with httpx.Client(base_url=url, timeout=60) as client:
        return {
            "stream": stream(client),
            "refused": [{"sent": what, **answer(client, **sent)} for what, sent in WRONG.items()] + [slow_head(url)],
            "overload": overload(client),
            "left": left(client),
            "metrics": metrics(client),
            "shutdown": shutdown(client, process),
        }


def answer(client: httpx.Client, path: str = "/v1/completions", **sent) -> dict:
    """Its status, the header Retry-After where there is one, and the message of its error."""
    got = client.post(path, **sent) if sent else client.get(path)
    message = got.json()["error"]["message"] if got.status_code >= 400 else ""
    return {"status": got.status_code, "retry_after": got.headers.get("retry-after"), "message": message}


def stream(client: httpx.Client) -> list[str]:
    """The lines of a streamed answer of three tokens."""
    asked = ASK | {"max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    return [line for line in client.post("/v1/completions", json=asked).text.splitlines() if line]


def slow_head(url: str) -> dict:
    """A head that never ends, byte after byte."""
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port)) as connection:
        began = time.perf_counter()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nX-Slow: ")
        connection.settimeout(0.5)
        while not (got := _received(connection)):
            connection.sendall(b"a")
        waited_s = round(time.perf_counter() - began)
        while more := _received(connection):  # a head and its body may come one after the other
            got += more
    head, _, body = got.decode().partition("\r\n\r\n")
    said = httpx.Response(int(head.split()[1]), content=body).json()["error"]["message"]
    sent = f"a head, byte after byte; cut off after {waited_s} s"
    return {"sent": sent, "status": int(head.split()[1]), "retry_after": None, "message": said}


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except TimeoutError:
        return b""


@contextmanager
def running(client: httpx.Client, count: int):
    """So many long answers on their way, each with its first event read."""
    with ExitStack() as stack:
        opened = [stack.enter_context(client.stream("POST", "/v1/completions", json=LONG)) for _ in range(count)]
        if refused := [one.status_code for one in opened if one.status_code != 200]:
            raise RuntimeError(f"{count} answers were to be on their way: {refused}")
        lines = [one.iter_lines() for one in opened]
        next(lines[0])
        yield lines


def overload(client: httpx.Client) -> dict:
    """One more than has room."""
    with running(client, sum(ROOM.values())):
        found = answer(client, json=ASK)
    wait_until_nobody_is_there(client)
    return found


def left(client: httpx.Client) -> dict:
    """Shares of the KV cache in use: while an answer is on its way, and after its client has closed the connection."""
    with running(client, 1):
        before = usage(client)
    wait_until_nobody_is_there(client)
    return {"running": before, "left": usage(client)}


def wait_until_nobody_is_there(client: httpx.Client) -> None:
    """Raises RuntimeError if a request or a block is, ten seconds after the last client has left."""
    until = time.perf_counter() + 10
    while any((there := {name: metrics(client)[name] for name in THERE}).values()):
        if time.perf_counter() > until:
            raise RuntimeError(f"what belongs to clients that have left is still there: {there}")
        time.sleep(0.01)


def usage(client: httpx.Client) -> float:
    return metrics(client)["gpulab_kv_cache_usage_perc"]


def metrics(client: httpx.Client) -> dict[str, float]:
    """By name those without a label."""
    lines = [line.split() for line in client.get("/metrics").text.splitlines() if line[0] != "#" and "{" not in line]
    return {name: float(value) for name, value in lines if not name.endswith("_created")}


def shutdown(client: httpx.Client, process) -> dict:
    """SIGTERM while answers are on their way: the probes, a new request, and what became of the old ones."""
    with running(client, sum(ROOM.values())) as lines:
        process.send_signal(signal.SIGTERM)
        while answer(client, "/ready")["status"] == 200:
            pass
        found = {name: answer(client, f"/{name}")["status"] for name in ("ready", "health")}
        found["new"] = answer(client, json=ASK)
        found["finished"] = sum("data: [DONE]" in one for one in lines)
    found["running"] = sum(ROOM.values())
    return found
