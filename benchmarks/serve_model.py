"""How the model's server holds: many streams for minutes, and latency against load.

    python -m benchmarks.serve_model streams [--streams 200] [--seconds 120]
    python -m benchmarks.serve_model load --guidellm PATH [--rates 5 10 15 …] [--seconds 15]
    python -m benchmarks.serve_model restart
    python -m benchmarks.serve_model exchanges

``streams``: that many at once from OpenAI's own client, in this process; the server is another. Every fifth client leaves in
the middle. A run counts only when nobody was lost: each stream has all its tokens or was closed by its client, and in the
end no request and no block is left. ``load``: guidellm at rising rates, evenly spaced, from an environment of its own
(``make load-model``). Its Poisson arrivals (0.8.1) were seen to come in lumps, half again as many as asked. ``restart``:
seconds from SIGKILL to the first token of a new process on the same port. ``exchanges``: see serve_exchanges.py. All write
what the book reads (gpulab/serving/http/record.json).
"""

import argparse
import asyncio
import json
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import openai
import psutil

from benchmarks import serve_exchanges
from gpulab.serving.http.record import RECORD as RESULTS
from gpulab.serving.http.tokenizer import VOCABULARY

ROOT = Path(__file__).parents[1]
TOKENS = 40


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def server(port: int = 0, **options):
    """A server of its own: its URL and its process. Raises RuntimeError if it does not start."""
    port = port or free_port()
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    process = subprocess.Popen([sys.executable, "-m", "gpulab.serving.http", "--port", str(port), *given], cwd=ROOT)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process)
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(url: str, process: subprocess.Popen) -> None:
    for _ in range(600):
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=1).close()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server did not start") from None
            time.sleep(0.1)
    raise RuntimeError("the server did not answer within a minute")


class Streams:
    """So many clients, each asking again as soon as it has its answer, until the time is over."""

    def __init__(self, url: str, streams: int, seconds: float, seed: int = 0) -> None:
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)
        self.streams, self.until, self.random = streams, time.perf_counter() + seconds, random.Random(seed)
        self.ended, self.ttft_s, self.gaps_s = Counter(), [], []

    async def run(self) -> None:
        await asyncio.gather(*(self._again_and_again() for _ in range(self.streams)))
        await self.client.close()

    async def _again_and_again(self) -> None:
        while time.perf_counter() < self.until:
            leaves = self.random.randrange(1, TOKENS // 2) if self.random.random() < 0.2 else None
            try:
                self.ended[await self._one(leaves)] += 1
            except openai.OpenAIError as error:
                self.ended[f"error: {type(error).__name__}"] += 1

    async def _one(self, leaves: int | None) -> str:
        prompt = " ".join(self.random.choices(VOCABULARY, k=self.random.randrange(4, 24)))
        began = before = time.perf_counter()
        stream = await self.client.completions.create(model="tinyvla", prompt=prompt, max_tokens=TOKENS, stream=True)
        told = 0
        async for piece in stream:
            told += bool(piece.choices and piece.choices[0].text)
            now = time.perf_counter()
            (self.ttft_s if told == 1 else self.gaps_s).append(now - before)
            before = now
            if told == leaves:
                await stream.close()
                return "left"
        assert before > began
        return "finished" if told == TOKENS else f"lost: {told} tokens of {TOKENS}"


async def _memory(process: psutil.Process, seen: list[tuple[float, float]]) -> None:
    began = time.perf_counter()
    while True:
        seen.append((round(time.perf_counter() - began, 1), round(process.memory_info().rss / 2**20, 1)))
        await asyncio.sleep(1)


async def _watched(
    url: str, process: psutil.Process, streams: int, seconds: float
) -> tuple[Streams, list[tuple[float, float]]]:
    memory: list[tuple[float, float]] = []
    watch = asyncio.ensure_future(_memory(process, memory))
    crowd = Streams(url, streams, seconds)
    await crowd.run()
    watch.cancel()
    return crowd, memory


def hold(streams: int, seconds: float) -> dict:
    """What came of it. Raises RuntimeError if anything was lost."""
    with server(queue=2 * streams) as (url, process):
        crowd, memory = asyncio.run(_watched(url, process, streams, seconds))
        with httpx.Client(base_url=url) as client:
            serve_exchanges.wait_until_nobody_is_there(client)
            generated = serve_exchanges.metrics(client)["gpulab_generation_tokens_total"]
        cpu = process.cpu_times()
    lost = {what: count for what, count in crowd.ended.items() if what not in ("finished", "left")}
    if lost or not crowd.ended["finished"]:
        raise RuntimeError(f"something was lost: {lost}; ended: {dict(crowd.ended)}")
    early = [mib for at, mib in memory if seconds / 4 <= at < seconds / 2]
    late = [mib for at, mib in memory if at >= 3 * seconds / 4]
    return {
        "streams": streams,
        "seconds": seconds,
        **crowd.ended,
        "tokens_per_s": round(generated / seconds),
        "ttft_s": _percentiles(crowd.ttft_s),
        "gap_s": _percentiles(crowd.gaps_s),
        "server_mib": {
            "second quarter": round(np.mean(early), 1),
            "last quarter": round(np.mean(late), 1),
            "most": max(m for _, m in memory),
        },
        "server_cpu_s": round(cpu.user + cpu.system, 1),
    }


def restart() -> dict:
    """``first_s``: from the start of a process to its first token. ``again_s``: from its SIGKILL to that of the next one."""
    port, began = free_port(), time.perf_counter()
    with server(port) as (url, process):
        _first_token(url)
        first_s, killed = time.perf_counter() - began, time.perf_counter()
        process.kill()
        process.wait()
    with server(port) as (url, _):
        _first_token(url)
        return {"first_s": round(first_s, 1), "again_s": round(time.perf_counter() - killed, 1)}


def _first_token(url: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    with client.completions.create(model="tinyvla", prompt="move to", max_tokens=2, stream=True) as stream:
        next(iter(stream))


def exchanges() -> dict:
    with server(**serve_exchanges.ROOM) as (url, process):
        return serve_exchanges.exchanges(url, process)


def _percentiles(values: list[float]) -> dict:
    return {f"p{percent}": round(float(np.percentile(values, percent)), 4) for percent in (50, 95, 99)}


def tokenizer(folder: Path) -> Path:
    """A tokenizer of the model's words, as guidellm reads one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # What guidellm draws is a novel's text: words that are not the model's become this one. A special token would be left out.
    other = VOCABULARY[1]
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(VOCABULARY)}, unk_token=other))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    return folder


def load(guidellm: str, rates: list[float], seconds: float) -> list[dict]:
    """Latencies at each rate of arrival, in requests a second, as guidellm reports them."""
    with tempfile.TemporaryDirectory() as folder, server() as (url, _):
        words = tokenizer(Path(folder) / "words")
        return [_at(guidellm, rate, seconds, url, words, Path(folder) / f"{rate}.json") for rate in rates]


def _at(guidellm: str, rate: float, seconds: float, url: str, words: Path, out: Path) -> dict:
    command = [
        guidellm, "run", "--backend", f"kind=openai_http,target={url},model=tinyvla", "--profile", f"kind=constant,rate={rate}",
        "--constraint", f"kind=max_duration,seconds={seconds:g}", "--tokenizer", f"kind=huggingface_auto,model={words}",
        "--data", f"kind=synthetic_text,prompt_tokens=24,output_tokens={TOKENS}", "--output", f"kind=json,path={out}",
    ]  # fmt: skip
    done = subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True)
    if done.returncode or not out.exists():
        raise RuntimeError(f"guidellm ended with {done.returncode}: {done.stderr[-2000:]}")
    return {"requests_per_s": rate} | _read(json.loads(out.read_text()))


def _read(report: dict) -> dict:
    """Of guidellm's report of one run."""
    metrics = report["benchmarks"][0]["metrics"]
    totals = metrics["request_totals"]
    found = {"finished": totals["successful"], "errors": totals["errored"]}
    if not found["finished"]:
        raise RuntimeError(f"no request was answered: {report['benchmarks'][0]['requests']['errored'][:1]}")
    for name, unit in (("time_to_first_token_ms", 1), ("inter_token_latency_ms", 1), ("request_latency", 1000)):
        seen = metrics[name]["successful"]
        short = name.removesuffix("_ms").replace("request_latency", "request") + "_ms"
        found[short] = {p: round(unit * seen["percentiles"][p], 2) for p in ("p50", "p99")}
    found["answered_per_s"] = round(metrics["requests_per_second"]["successful"]["mean"], 2)
    found["output_tokens_per_s"] = round(metrics["output_tokens_per_second"]["total"]["mean"], 1)
    return found


def keep(name: str, value) -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept["machine"] = {"cpus": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()}
    kept[name] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "found": value}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of = parser.add_subparsers(dest="what", required=True)
    streams = of.add_parser("streams")
    streams.add_argument("--streams", type=int, default=200)
    streams.add_argument("--seconds", type=float, default=120)
    loads = of.add_parser("load")
    loads.add_argument("--guidellm", default="guidellm")
    loads.add_argument("--rates", type=float, nargs="+", default=[5, 10, 15, 20, 25, 30, 40, 60])
    loads.add_argument("--seconds", type=float, default=15)
    of.add_parser("restart")
    of.add_parser("exchanges")
    options = parser.parse_args()
    match options.what:
        case "streams":
            found = hold(options.streams, options.seconds)
        case "load":
            found = load(options.guidellm, options.rates, options.seconds)
        case "restart":
            found = restart()
        case _:
            found = exchanges()
    keep(options.what, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
