"""A policy, its batch and its training step on a device."""

from contextlib import nullcontext

import torch

import gpulab.cuda
from gpulab.model import SIZES, Config, TinyVLA


def on(where: str):
    """The runtime that a test asks for: ``cpu`` and ``meta`` need none."""
    return nullcontext() if where in ("cpu", "meta") else gpulab.cuda.use(where, quiet=True)


def device_of(where: str) -> str:
    return where if where in ("cpu", "meta") else "cuda"


def policy(where: str, config: Config = SIZES["tiny"], dtype=torch.float32) -> TinyVLA:
    """Made on the device in its dtype, so that nothing else was ever held there."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device_of(where)):
            return TinyVLA(config)
    finally:
        torch.set_default_dtype(before)


def batch(where: str, config: Config = SIZES["tiny"], frames: int = 4) -> tuple[torch.Tensor, ...]:
    """Images, words and actions of ``frames`` frames, all zero."""
    device = device_of(where)
    return (
        torch.zeros(frames, config.image, config.image, 3, dtype=torch.uint8, device=device),
        torch.zeros(frames, config.text_length, dtype=torch.int64, device=device),
        torch.zeros(frames, config.action_length, dtype=torch.int64, device=device),
    )


def asked_for(what: str) -> int:
    """Bytes that were asked of the card's allocator, ``current`` or ``peak``."""
    return torch.cuda.memory_stats()[f"requested_bytes.all.{what}"]


def allocated(what: str) -> int:
    """The same after rounding."""
    return torch.cuda.memory_stats()[f"allocated_bytes.all.{what}"]
