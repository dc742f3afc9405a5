"""``python -m gpulab.serving.http``: serve TinyVLA until it is interrupted."""

import argparse

import torch
import uvicorn

from gpulab.serving.http.app import Setup, app_of
from gpulab.serving.http.patience import Patience
from gpulab.serving.plan import Budget

CONNECTIONS = 2048
"""Open at once, at most; uvicorn answers 503 beyond."""


def config(setup: Setup, patience: Patience, host: str, port: int, **others) -> uvicorn.Config:
    """What uvicorn is started with."""
    app = app_of(setup)
    app.add_middleware(patience)
    return uvicorn.Config(
        app,
        host,
        port,
        http=patience.protocol(),
        lifespan="on",
        access_log=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        **others,
    )


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m gpulab.serving.http", description="TinyVLA behind an endpoint of OpenAI's shape."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    told = "chunked, continuous, static, or FILE.py:CALL, FILE.ipynb:CALL as continuous_batcher(patience=4)"
    parser.add_argument("--scheduler", default="chunked", help=told)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--blocks", type=int, default=2048, help="of 16 tokens, in the KV cache")
    parser.add_argument("--context", type=int, default=256, help="tokens of prompt and answer at most")
    parser.add_argument("--tokens", type=int, default=512, help="computed in a step at most")
    parser.add_argument("--requests", type=int, default=64, help="that run at once at most")
    parser.add_argument("--queue", type=int, default=192, help="requests that may wait; who comes then is refused")
    return parser.parse_args()


def main() -> None:
    asked = _asked()
    torch.set_num_threads(1)
    try:
        setup = Setup(
            asked.scheduler,
            asked.device,
            asked.blocks,
            context=asked.context,
            budget=Budget(asked.tokens, asked.requests),
            queue=asked.queue,
        )
        server = uvicorn.Server(config(setup, Patience(), asked.host, asked.port, log_level="warning"))
    except ValueError as error:
        raise SystemExit(f"{error}") from None
    print(f"TinyVLA at http://{asked.host}:{asked.port}/v1, driven by {asked.scheduler}. Ctrl-C ends it.", flush=True)
    server.run()


if __name__ == "__main__":
    main()
