"""``python -m gpulab.serving.http``: serve TinyVLA until it is interrupted."""

import argparse
import resource
from contextlib import suppress

import torch

from gpulab.serving.http.limits import BACKLOG, RESERVED, Limits
from gpulab.serving.http.server import Server
from gpulab.serving.http.setup import Setup
from gpulab.serving.plan import Budget

SCHEDULER = "chunked, continuous, static, or FILE.py:CALL, FILE.ipynb:CALL as 'engines.ipynb:continuous_batcher(4)'"

OWN_FILES = 64
"""Files and sockets that the process has open beside its connections."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m gpulab.serving.http", description="TinyVLA behind an endpoint of OpenAI's shape."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000)
    parser.add_argument("--scheduler", default="chunked", help=SCHEDULER)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--blocks", type=int, default=2048, help="of 16 tokens, in the KV cache")
    parser.add_argument("--context", type=int, default=256, help="tokens of prompt and answer at most")
    parser.add_argument("--tokens", type=int, default=512, help="computed in a step at most")
    parser.add_argument("--requests", type=int, default=64, help="that run at once at most")
    parser.add_argument("--queue", type=int, default=192, help="requests that may wait; one that comes then gets 429")
    parser.add_argument("--grace", type=float, default=25.0, help="seconds that running requests have after SIGTERM")
    return parser.parse_args()


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    greeting = f"TinyVLA at http://{options.host}:{options.port}/v1, driven by {options.scheduler}. Ctrl-C ends it."
    try:
        setup = Setup(
            options.scheduler,
            options.device,
            options.blocks,
            context=options.context,
            budget=Budget(options.tokens, options.requests),
            queue=options.queue,
        )
        server = Server(
            setup, _limits(), options.host, options.port, options.grace, greeting=greeting, log_level="warning"
        )
    # The last two are PyTorch's, for a cache that does not fit and a device that is not here.
    except (ValueError, RuntimeError, AssertionError) as error:
        raise SystemExit(f"{error}") from None
    with suppress(KeyboardInterrupt):
        server.run()


def _limits() -> Limits:
    """As many connections as the process may have files, and no more than the default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return Limits(connections=max(1, min(Limits.connections, most - BACKLOG - RESERVED - OWN_FILES)))


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text}")
    return int(text)


if __name__ == "__main__":
    main()
