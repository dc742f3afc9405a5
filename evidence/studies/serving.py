"""Decode and prefill of the book's policy, by batch and by tokens held, called and replayed from a graph."""

import torch

from evidence.studies import Figures, Rows, Study
from evidence.studies.training import policy
from evidence.timing import behind_a_busy_device_us, device_us
from gpulab.model import Cache, TinyVLA

_BF16 = torch.bfloat16


def _decode(model: TinyVLA, batch: int, held: int):
    """A function that computes one more token of each sequence, and writes its keys and values."""
    x = torch.randn(batch, 1, model.config.width, device="cuda", dtype=_BF16)
    cache = Cache(model.config, batch, held + 1, like=x)
    for buffer in (cache.keys, cache.values):
        buffer.normal_()

    @torch.no_grad()
    def step() -> torch.Tensor:
        cache.length = held
        return model.lm_head(model.decode(x, None, cache)[:, -1])

    return step


def replayed(step):
    """The step as a CUDA graph: one launch."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def _step(model: TinyVLA, batch: int, held: int) -> Figures:
    step = _decode(model, batch, held)
    found = {"us": device_us(step), "us_host_ahead": behind_a_busy_device_us(step, calls=2)}
    return found | {"graph_us": device_us(replayed(step))}


def _sizes(model: TinyVLA, sizes) -> Rows:
    for batch, held in sizes:
        yield f"batch {batch}, {held} held", lambda: _step(model, batch, held)


def decode_of_7b() -> Rows:
    short = [(batch, 64) for batch in (1, 16, 32, 64, 128)]
    longer = [(batch, 2112) for batch in (1, 16, 32)] + [(1, 288), (1, 4095), (8, 4095), (16, 4095)]
    yield from _sizes(policy("7B", _BF16), short + longer)


def decode_of_small() -> Rows:
    yield from _sizes(policy("350M", _BF16), [(1, 288), (32, 288), (256, 288)])


def _prompt(model: TinyVLA, tokens: int) -> Figures:
    x = torch.randn(1, tokens, model.config.width, device="cuda", dtype=_BF16)

    @torch.no_grad()
    def prefill() -> torch.Tensor:
        cache = Cache(model.config, 1, tokens, like=x)
        return model.lm_head(model.decode(x, None, cache)[:, -1])

    us = device_us(prefill)
    return {"us": us, "us_host_ahead": behind_a_busy_device_us(prefill, calls=1), "tokens_per_s": tokens / (us / 1e6)}


def prefill_of_7b() -> Rows:
    model = policy("7B", _BF16)
    for tokens in (1, 128, 288, 512, 1024, 2048, 4096):
        yield f"{tokens} tokens", lambda: _prompt(model, tokens)


STUDIES = {
    "decode, 7B": Study(
        decode_of_7b,
        "TinyVLA 7B (the shape of Llama 2 7B) in bfloat16, one more token of each sequence, head included.",
        ("serving/inference", "serving/engines"),
        "ghost",
    ),
    "decode, 350M": Study(
        decode_of_small, "TinyVLA 350M in bfloat16, one more token of each sequence.", ("serving/inference",), "ghost"
    ),
    "prefill, 7B": Study(
        prefill_of_7b,
        "TinyVLA 7B in bfloat16, one prompt that looks at all of itself, as TinyVLA's does; the head for its last token.",
        ("serving/inference",),
        "ghost",
    ),
}
