"""Does accuracy survive: the tiny policy trained in six formats from three seeds, and how often each then reaches its object.

    python -m evidence.studies.accuracy FOLDER 0 "all in bfloat16"    one run, on the frames in FOLDER, as a line of JSON

Runs of a seed see the same frames and begin with the same weights. The tiny policy's launches take longer than its
kernels, so runs share the card, some side by side.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import torch

from evidence.studies import Figures, Rows, Study
from gpulab.compat.operators import foreach_copy_
from gpulab.model import TinyVLA, success
from gpulab.model.train import BATCH, CLIP, UNSEEN, groups, rate
from gpulab.model.world import WORDS, frames

STEPS, SEEDS, EPISODES, SIDE_BY_SIDE = 2500, (0, 1, 2), 200, 9
BETAS, EPS = (0.9, 0.98), 1e-8
_LAST, _DRAWING = 100, 5
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Format:
    """autocast: of forward and backward. weights: of parameters, gradients and moments."""

    autocast: torch.dtype | None = None
    weights: torch.dtype = torch.float32
    scaled: bool = False
    stochastic: bool = False

    def cast(self) -> torch.autocast | nullcontext:
        return torch.autocast("cuda", self.autocast) if self.autocast else nullcontext()


FORMATS = {
    "float32": Format(),
    "autocast to float16, GradScaler": Format(torch.float16, scaled=True),
    "autocast to float16, no scaler": Format(torch.float16),
    "autocast to bfloat16": Format(torch.bfloat16),
    "all in bfloat16": Format(weights=torch.bfloat16),
    "all in bfloat16, stochastic rounding": Format(weights=torch.bfloat16, stochastic=True),
}


def rounded_stochastically(x: torch.Tensor) -> torch.Tensor:
    """float32 as bfloat16: up or down, in proportion to the distance, so that the mean is ``x``."""
    noise = torch.randint_like(x, 1 << 16, dtype=torch.int32)
    return ((x.view(torch.int32) + noise) & -(1 << 16)).view(torch.float32).bfloat16()


class StochasticAdamW:
    """AdamW over bfloat16: the step in float32, weights rounded stochastically, moments to the nearest."""

    def __init__(self, groups: list[dict]) -> None:
        self.param_groups = groups
        self._of = [(group, parameter) for group in groups for parameter in group["params"]]
        self._parameters = [parameter for _, parameter in self._of]
        self._sizes = [parameter.numel() for parameter in self._parameters]
        decays = [torch.full((size,), group["weight_decay"]) for (group, _), size in zip(self._of, self._sizes)]
        self._decay = torch.cat(decays).cuda()
        self._first, self._second = (torch.zeros_like(self._decay, dtype=torch.bfloat16) for _ in range(2))
        self._steps = 0

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self._steps += 1
        lr, gradient = self.param_groups[0]["lr"], _flat(p.grad for p in self._parameters)
        first = self._first.float().lerp(gradient, 1 - BETAS[0])
        second = self._second.float().lerp(gradient.square(), 1 - BETAS[1])
        self._first, self._second = first.bfloat16(), second.bfloat16()
        size = (second / (1 - BETAS[1] ** self._steps)).sqrt() + EPS
        new = _flat(self._parameters) * (1 - lr * self._decay) - lr * first / (1 - BETAS[0] ** self._steps) / size
        parts = rounded_stochastically(new).split(self._sizes)
        foreach_copy_(self._parameters, [part.view_as(p) for part, p in zip(parts, self._parameters)])


def _flat(tensors) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).float()


def trained(folder: Path, seed: int, how: Format, steps: int) -> tuple[TinyVLA, Figures]:
    torch.manual_seed(seed)
    policy = TinyVLA().to("cuda", how.weights)
    adam = StochasticAdamW if how.stochastic else partial(torch.optim.AdamW, betas=BETAS, fused=True)
    optimizer = adam(groups(policy))
    scaler = torch.amp.GradScaler("cuda", enabled=how.scaled)
    losses = torch.zeros(steps, device="cuda")
    for step, given in enumerate(_batches(folder, seed, steps)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        optimizer.zero_grad()
        with how.cast():
            loss = policy.loss(*given)
        scaler.scale(loss).backward()
        if how.scaled:
            scaler.unscale_(optimizer)
        zeros = _flat(p.grad for p in policy.parameters()) == 0
        torch.nn.utils.clip_grad_norm_(policy.parameters(), CLIP)
        scaler.step(optimizer) if how.scaled else optimizer.step()
        scaler.update()
        losses[step] = loss.detach()
    found = {"loss": losses[-_LAST:].mean().item(), "zero_gradients_share": zeros.float().mean().item()}
    return policy, found | ({"scale": scaler.get_scale()} if how.scaled else {})


def _batches(folder: Path, seed: int, steps: int) -> Iterator[tuple[torch.Tensor, ...]]:
    arrays = [np.load(folder / f"{seed}-{part}.npy", mmap_mode="c")[:steps] for part in ("image", "text", "bins")]
    parts = [torch.from_numpy(array).cuda() for array in arrays]
    for image, text, bins in zip(*parts):
        yield image, text, bins + len(WORDS)


def one_run(folder: Path, seed: int, name: str, steps: int = STEPS, episodes: int = EPISODES) -> Figures:
    policy, found = trained(folder, seed, FORMATS[name], steps)
    with FORMATS[name].cast():
        return {"success_share": success(policy, episodes, UNSEEN), "episodes": episodes, "steps": steps, **found}


def _frames(seed: int, step: int) -> tuple[np.ndarray, ...]:
    return frames(BATCH, np.random.default_rng([seed, step]), fewer=True)


def draw(folder: Path, seed: int, steps: int = STEPS) -> None:
    """The seed's frames, each step's from a generator of its own: (steps, B, ...)."""
    with Pool(_DRAWING) as pool:
        drawn = pool.map(partial(_frames, seed), range(steps))
    for part, arrays in zip(("image", "text", "bins"), zip(*drawn)):
        np.save(folder / f"{seed}-{part}.npy", np.stack(arrays))


def _apart(*words: object) -> str:
    command = [sys.executable, "-m", "evidence.studies.accuracy", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.splitlines() or ["no answer"])[-1])
    return done.stdout.strip()


def accuracy() -> Rows:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(lambda seed: _apart("draw", folder, seed), SEEDS))
        runs = {(name, seed): pool.submit(_apart, folder, seed, name) for name in FORMATS for seed in SEEDS}
        for (name, seed), run in runs.items():
            yield f"{name}, seed {seed}", _answer(run.result)


def _answer(result: Callable[[], str]) -> Callable[[], Figures]:
    return lambda: json.loads(result().splitlines()[-1])


STUDIES = {
    "does accuracy survive": Study(
        accuracy,
        f"The tiny policy, AdamW, {STEPS} steps of {BATCH} frames, then {EPISODES} unseen episodes; "
        f"loss: the mean of the last {_LAST} steps.",
        ("one_gpu/precision",),
    )
}


def main() -> None:
    if sys.argv[1] == "draw":
        draw(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(one_run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))


if __name__ == "__main__":
    main()
