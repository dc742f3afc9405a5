"""The training job that is recorded: TinyVLA learns two more colours, with AdamW, warm-up and cosine, clipping, fp16 with a loss scale."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from gpulab.model import TinyVLA, load
from gpulab.model.camera import COLOURS
from gpulab.model.train import groups
from gpulab.model.world import WORDS, frames
from gpulab.recordings.faults import Fault

STEPS, BATCH = 300, 32
SHARDS, SHARD = 6, 25
"""Of the data set, and the batches in each."""
PEAK, FLOOR, WARM_UP, CLIP = 1e-3, 0.1, 30, 1.0
GROWTH_INTERVAL = 100
"""Clean steps after which the loss scale doubles; PyTorch's default, 2000, would not show in so short a run."""
HELD_OUT, EVERY = 256, 10
"""Frames that no step trains on, and how often their loss is taken."""
ALL = tuple(range(len(COLOURS)))
"""Two of them the trained policy has never seen: the job teaches them to it."""
_DATA, _ORDER, _UNSEEN = 17, 18, 19


def rate(step: int, peak: float = PEAK) -> float:
    """The learning rate of a step, counted from 0: warm-up to ``peak``, then a cosine down to a tenth of it."""
    if step < WARM_UP:
        return peak * (step + 1) / WARM_UP
    through = (step - WARM_UP) / (STEPS - WARM_UP)
    return peak * (FLOOR + (1 - FLOOR) * (0.5 + 0.5 * math.cos(math.pi * through)))


def place(position: int) -> tuple[int, int]:
    """Shard and batch within it at a position of the sampler: shards are read in another order in every epoch."""
    epoch, inside = divmod(position, SHARDS * SHARD)
    order = np.random.default_rng([_ORDER, epoch]).permutation(SHARDS)
    return int(order[inside // SHARD]), inside % SHARD


def read(shard: int, batch: int) -> list[Tensor]:
    """Images, word ids and action tokens of one batch."""
    return _tensors(BATCH, [_DATA, shard, batch])


def train(fault: Fault, steps: int = STEPS) -> Iterator[dict]:
    """Train with a fault; yields what a dashboard sees of each step: loss, gradient norm before clipping, rate, scale.

    ``held_out`` is in every tenth entry. A number that is not finite is None.
    """
    policy = load().train()
    grown = as_in_fp16(policy)
    optimizer = torch.optim.AdamW(groups(policy), betas=(0.9, 0.98))
    scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
    unseen = _tensors(HELD_OUT, [_UNSEEN])
    for step in range(steps):
        grown.gain = fault.gain(step)
        fault.strike(step, policy)
        shard, batch = place(fault.position(step))
        given = fault.spoil(step, shard, read(shard, batch))
        lr, scale = rate(step, PEAK * fault.times), scaler.get_scale()
        loss, norm = _step(policy, optimizer, scaler, given, lr)
        told = {"loss": loss, "norm": norm, "lr": lr, "scale": scale}
        if step % EVERY == 0:
            told["held_out"] = _loss_of(policy, unseen)
        yield {name: _finite(value) for name, value in told.items()} | {"scale": scale}


class Rounding:
    """A forward hook: what a module puts out, and the gradient that comes back to it, as fp16 holds them.

    ``gain``: the numbers are first made so many times larger, and smaller again afterwards.
    """

    gain = 1.0

    def __call__(self, module: nn.Module, given: tuple, out: Tensor) -> Tensor:
        return (out * self.gain).half().float() / self.gain


def as_in_fp16(policy: nn.Module) -> Rounding:
    """Round every Linear as fp16 autocast does. Returns the rounding of the numbers inside the MLPs, whose gain may grow."""
    hidden, rest = Rounding(), Rounding()
    for name, module in policy.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(hidden if name.endswith("up_proj") else rest)
    return hidden


def _step(policy: TinyVLA, optimizer, scaler, given: list[Tensor], lr: float) -> tuple[float, float]:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()
    loss = policy.loss(*given)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(policy.parameters(), CLIP)
    scaler.step(optimizer)
    scaler.update()
    return loss.item(), norm.item()


@torch.no_grad()
def _loss_of(policy: TinyVLA, given: list[Tensor]) -> float:
    return policy.loss(*given).item()


def _tensors(size: int, seed: list[int]) -> list[Tensor]:
    image, text, bins = frames(size, np.random.default_rng(seed), colours=ALL)
    return [torch.from_numpy(array) for array in (image, text, bins + len(WORDS))]


def _finite(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
