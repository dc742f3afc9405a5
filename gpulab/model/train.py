"""``python -m gpulab.model.train``: trains TinyVLA by behaviour cloning on newly generated frames (CPU, minutes).

One thread: on two cores a second one gains little, and beside other work it loses much.
"""

import argparse
import math
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from gpulab.model.camera import COLOURS
from gpulab.model.checkpoint import TRAINED, save
from gpulab.model.config import SIZES
from gpulab.model.episodes import WITHOUT, success
from gpulab.model.policy import TinyVLA
from gpulab.model.world import TRAINED_COLOURS, WORDS, frames

STEPS, BATCH, RATE, WARM_UP, CLIP = 4000, 64, 1e-3, 150, 1.0
UNSEEN = 2000
"""The seed of the 200 episodes that a checkpoint is judged by; training draws from others."""


def batches(steps: int, size: int, seed: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Images, word ids and action tokens, ``size`` frames each."""
    rng = np.random.default_rng([seed, 0])
    for _ in range(steps):
        image, text, bins = frames(size, rng, fewer=True)
        yield torch.from_numpy(image), torch.from_numpy(text), torch.from_numpy(bins + len(WORDS))


def groups(policy: TinyVLA) -> list[dict]:
    """The optimizer's: no decay on what has one dimension, the scales of norms and a bias."""
    wide = [p for p in policy.parameters() if p.ndim >= 2]
    narrow = [p for p in policy.parameters() if p.ndim < 2]
    return [{"params": wide, "weight_decay": 0.05}, {"params": narrow, "weight_decay": 0.0}]


def rate(step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0: warm-up, then a cosine to 0."""
    return RATE * min(1, (step + 1) / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * step / steps))


def train(policy: TinyVLA, steps: int, seed: int) -> Iterator[dict]:
    """Train; yields an entry of the learning curve every 500 steps."""
    optimizer = torch.optim.AdamW(groups(policy), betas=(0.9, 0.98))
    losses = []
    for step, (image, text, actions) in enumerate(batches(steps, BATCH, seed)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        loss = policy.loss(image, text, actions)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 500 == 0:
            told = {
                "step": step + 1,
                "cpu_seconds": round(time.process_time()),
                "loss": round(float(np.mean(losses[-100:])), 4),
            }
            yield told | {"success_of_100": success(policy, 100, [seed, 1])}


def limits(policy: TinyVLA, episodes: int = 200) -> dict:
    """Success where the policy is denied something, and where every instruction names a colour that training left out."""
    new = {
        name: {"colours": tuple(range(len(COLOURS))), "always": i}
        for i, name in enumerate(COLOURS)
        if i >= TRAINED_COLOURS
    }
    return {
        "success_without": {without: success(policy, episodes, UNSEEN, without) for without in WITHOUT},
        "success_in_colours_left_out": {
            name: success(policy, episodes, UNSEEN, **world) for name, world in new.items()
        },
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--steps", type=int, default=STEPS)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--out", type=Path, default=TRAINED, help="the checkpoint's name, without a suffix")
    options = asked.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    policy, curve = TinyVLA(SIZES["tiny"]), []
    for entry in train(policy, options.steps, options.seed):
        print(entry, flush=True)
        curve.append(entry)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    told = {
        "steps": options.steps,
        "batch": BATCH,
        "seed": options.seed,
        "cpu_seconds": round(time.process_time()),
        "threads": 1,
    }
    told |= {
        "unseen_seed": UNSEEN,
        "success_of_200": success(policy, 200, UNSEEN),
        **limits(policy),
        "versions": versions,
        "curve": curve,
    }
    save(policy, told, options.out)
    print({key: value for key, value in told.items() if key != "curve"})


if __name__ == "__main__":
    main()
