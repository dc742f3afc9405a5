"""E18.2 kv_bytes: a question, of a decoder and its requests."""

from typing import Any

from autograder.core.sampler import Sampler
from exercises.inference.kv_bytes.expected import OPTIONS

PLAIN = OPTIONS | {"layers": 2, "width": 64, "heads": 1, "kv_heads": 1, "head_dim": 64}


def question_of(config: dict, requests: list[dict], dtype: str = "bfloat16") -> dict:
    return {"config": config, "requests": requests, "dtype": dtype}


def request_of(text: int, images: list = (), videos: list = (), generated: int = 1) -> dict:
    """With one token sampled the prompt is kept: what holds before and after, `requests` and `together` ask."""
    return {"text": text, "images": list(images), "videos": list(videos), "generated": generated}


def decoder(sampler: Sampler, **named: Any) -> dict:
    """Every head of queries has its keys, and the heads fill the width, unless ``named`` says otherwise."""
    heads, head_dim = sampler.integer(1, 20), sampler.choice([48, 64, 80, 97, 128])
    sizes = {"width": heads * head_dim, "heads": heads, "kv_heads": heads, "head_dim": head_dim}
    return OPTIONS | {"layers": sampler.integer(2, 30)} | sizes | named
