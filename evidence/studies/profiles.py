"""``gpulab.profile`` on the card: verdicts, the kernels' own names, and one trace to look at."""

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

import gpulab
from evidence.studies import Figures, Rows, Study
from evidence.studies.training import batch, policy, step_of
from gpulab.model import Config, TinyVLA
from gpulab.traces.events import KERNEL

TRACED = Config(width=256, layers=4, heads=8, kv_heads=4, hidden=768)
"""The policy of the recorded trace: small, so that the file is."""


def _found(step: Callable, inputs=None) -> Figures:
    profiled = gpulab.profile(step, inputs)
    parts = profiled.verdict.rests_on
    shares = {f"{kind}_share": share for kind, share in profiled.verdict.shares.items()}
    return {
        "verdict": profiled.verdict.kind,
        "us": profiled.step_us,
        "a_kernel_runs_share": 1 - parts.idle / parts.total,
    } | shares


def _batches() -> Iterator[None]:
    while True:
        time.sleep(0.004)  # decodes images
        yield None


def verdicts() -> Rows:
    half = dict(device="cuda", dtype=torch.bfloat16)
    a, rows = torch.zeros(4096, 4096, **half), torch.zeros(256, 2048, **half)
    b, large = torch.zeros(2048, 2048, **half), torch.zeros(1 << 27, **half)
    small = torch.zeros(64, 64, device="cuda")

    def products(given=None) -> None:
        for _ in range(4):
            a @ a

    def elementwise() -> None:
        for _ in range(4):
            large.mul_(2)

    def tiny() -> None:
        y = small
        for _ in range(50):
            y = y * 2

    def waits() -> None:
        for _ in range(8):
            rows @ b
            torch.cuda.synchronize()

    for step in (products, elementwise, tiny, waits):
        yield step.__name__, lambda: _found(step)
    yield "from a loader", lambda: _found(products, _batches())


def _policy_step(frames: int, dtype: torch.dtype) -> Figures:
    model = policy(dtype=dtype)
    return _found(step_of(model, frames, torch.optim.AdamW(model.parameters(), fused=True)))


def policy_steps() -> Rows:
    for frames, dtype in ((1, torch.float32), (32, torch.float32), (1, torch.bfloat16), (32, torch.bfloat16)):
        yield f"{frames} frames, {str(dtype)[6:]}", lambda: _policy_step(frames, dtype)


def _kernels(layer: nn.Module, x: torch.Tensor) -> Figures:
    """Names of the kernels of one forward and backward pass, each with how often it ran."""
    layer, x = layer.cuda(), x.cuda().requires_grad_()

    def step() -> None:
        layer(x).sum().backward()

    seen = Counter(event.name for event in gpulab.profile(step, steps=1).trace.of(KERNEL))
    return {f"kernel {name[:160]}": count for name, count in seen.items()}


def kernel_names() -> Rows:
    half = torch.float16
    yield (
        "Linear, 1024 to 4096, float16",
        lambda: _kernels(nn.Linear(1024, 4096).to(half), torch.randn(2048, 1024).to(half)),
    )
    yield (
        "Conv2d, 3 x 3, float16",
        lambda: _kernels(nn.Conv2d(64, 128, 3, padding=1).to(half), torch.randn(32, 64, 56, 56).to(half)),
    )
    yield "Conv2d, 3 x 3, float32", lambda: _kernels(nn.Conv2d(64, 128, 3, padding=1), torch.randn(32, 64, 56, 56))


def save_trace(path: Path) -> None:
    """Two training steps of a small policy as a Chrome trace, gzipped, with no name of the machine in it."""
    with torch.device("cuda"):
        model = TinyVLA(TRACED)
    given = batch(32, TRACED)
    optimizer = torch.optim.AdamW(model.parameters())
    plain = path.with_suffix("")

    def step() -> None:
        optimizer.zero_grad()
        with torch.profiler.record_function("forward"):
            loss = model.loss(*given)
        loss.backward()
        with torch.profiler.record_function("read the loss"):
            loss.item()
        optimizer.step()

    gpulab.profile(step, steps=2).save(plain)
    document = json.loads(plain.read_text())
    plain.unlink()
    for key in ("traceName", "hostname", "host_name"):
        document.pop(key, None)
    path.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0))


STUDIES = {
    "verdicts of gpulab.profile": Study(
        verdicts,
        "The steps of the page, bfloat16 but for the tiny one; shares of the steps' time.",
        ("one_gpu/profiling",),
        "ghost",
    ),
    "verdicts of training steps": Study(
        policy_steps, "TinyVLA 350M, fused AdamW, by gpulab.profile.", ("one_gpu/profiling", "one_gpu/trading"), "ghost"
    ),
    "names of kernels": Study(
        kernel_names, "Forward and backward pass, kernels by name and how often.", ("device/kernels",)
    ),
}
