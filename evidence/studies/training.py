"""Measures the time and memory of a training step of TinyVLA, and the effect of each optimisation."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from torch.utils.checkpoint import checkpoint

import gpulab
from evidence.studies import Figures, Rows, Study
from evidence.timing import device_us, peak_bytes
from gpulab.cards.cards import CARDS
from gpulab.compat.cuda import SET_ALLOCATOR_SETTINGS
from gpulab.model import SIZES, TinyVLA

_ADAM = torch.optim.AdamW
_SMALLER = CARDS["RTX4090"].memory_bytes


def batch(size: int, config) -> tuple[torch.Tensor, ...]:
    """Images, words and actions; only their shapes matter."""
    image = torch.zeros(size, config.image, config.image, 3, dtype=torch.uint8, device="cuda")
    words, actions = (
        torch.zeros(size, length, dtype=torch.long, device="cuda")
        for length in (config.text_length, config.action_length)
    )
    return image, words, actions


def policy(size: str = "350M", dtype: torch.dtype = torch.float32) -> TinyVLA:
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            return TinyVLA(SIZES[size])
    finally:
        torch.set_default_dtype(torch.float32)


def recomputed(model: TinyVLA) -> None:
    """A checkpoint for each layer."""
    for layer in model.layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)


def step_of(
    model: TinyVLA,
    frames: int,
    optimizer: torch.optim.Optimizer,
    precision: torch.dtype | None = None,
    scaler: torch.amp.GradScaler | None = None,
    turns: int = 1,
    hooks: Callable = nullcontext,
    to_none: bool = True,
) -> Callable[[], None]:
    """One step of training, once AdamW has its moments."""
    given = batch(frames // turns, model.config)
    scaled = scaler or torch.amp.GradScaler("cuda", enabled=False)

    def step() -> None:
        optimizer.zero_grad(set_to_none=to_none)
        for _ in range(turns):
            with torch.autocast("cuda", precision, enabled=precision is not None), hooks():
                loss = model.loss(*given) / turns
            scaled.scale(loss).backward()
        scaled.step(optimizer)
        scaled.update()

    step()
    return step


def _taken(step: Callable[[], None]) -> Figures:
    peak = peak_bytes(step)
    return {"us": device_us(step, rounds=3, warmups=0), "peak_bytes": peak}


def _rung(frames: int = 24, change: Callable = lambda model: None, how: dict | None = None, **options) -> Figures:
    model = policy()
    change(model)
    return _taken(step_of(model, frames, _ADAM(model.parameters(), **options), **(how or {})))


def ladder() -> Rows:
    fused = dict(fused=True)
    on_host = partial(torch.autograd.graph.save_on_cpu, pin_memory=True)
    yield "as it is", lambda: _rung()
    yield "fused AdamW", lambda: _rung(**fused)
    yield "2 micro-batches of 12", lambda: _rung(how=dict(turns=2), **fused)
    yield "a checkpoint for each layer", lambda: _rung(change=recomputed, **fused)
    yield "both", lambda: _rung(change=recomputed, how=dict(turns=2), **fused)
    yield "saved tensors on the host, pinned", lambda: _rung(how=dict(hooks=on_host), **fused)
    yield "AdamW tensor by tensor", lambda: _rung(foreach=False)
    yield "gradients set to zero, not to None", lambda: _rung(how=dict(to_none=False), **fused)
    yield "autocast to bfloat16", lambda: _rung(how=dict(precision=torch.bfloat16), **fused)
    yield "autocast and checkpoints", lambda: _rung(change=recomputed, how=dict(precision=torch.bfloat16), **fused)


def _optimizer_alone(**options) -> Figures:
    model = policy()
    optimizer = _ADAM(model.parameters(), **options)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    before = torch.cuda.memory_allocated()
    temporary = peak_bytes(optimizer.step) - before
    return {
        "us": device_us(optimizer.step),
        "temporary_bytes": temporary,
        "parameter_bytes": 4 * SIZES["350M"].parameters,
    }


def optimizers() -> Rows:
    yield "foreach, the default", lambda: _optimizer_alone()
    yield "fused", lambda: _optimizer_alone(fused=True)
    yield "tensor by tensor", lambda: _optimizer_alone(foreach=False)


def _mixed(precision=None, tf32=False, scaled=False, dtype=torch.float32, **options) -> Figures:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        model = policy(dtype=dtype)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0) if scaled else None
        step = step_of(model, 32, _ADAM(model.parameters(), **options), precision, scaler)
        found = _taken(step)
        with gpulab.observe() as seen:
            step()
        found |= {"scale": scaler.get_scale()} if scaler else {}
        return found | {"kernels": len(seen.kernels), "waits": len(seen.waits)}
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def mixed_precision() -> Rows:
    half, brain = torch.float16, torch.bfloat16
    yield "float32", lambda: _mixed()
    yield "TF32", lambda: _mixed(tf32=True)
    yield "autocast to bfloat16", lambda: _mixed(brain)
    yield "autocast to float16, no scaler", lambda: _mixed(half)
    yield "autocast to float16, GradScaler", lambda: _mixed(half, scaled=True)
    yield "autocast to float16, fused AdamW", lambda: _mixed(half, fused=True)
    yield "autocast to float16, GradScaler, fused AdamW", lambda: _mixed(half, scaled=True, fused=True)
    yield "all in bfloat16", lambda: _mixed(dtype=brain)


def _seven(dtype: torch.dtype, frames: int, change: Callable = lambda model: None, **options) -> Figures:
    model = policy("7B", dtype)
    change(model)
    optimizer = _ADAM(model.parameters(), **options)
    step = step_of(model, frames, optimizer)
    return {"peak_bytes": peak_bytes(step)}


def seven_billion() -> Rows:
    yield "float32, one frame", lambda: _seven(torch.float32, 1)
    yield "float32, one frame, fused AdamW", lambda: _seven(torch.float32, 1, fused=True)
    yield "bfloat16, one frame", lambda: _seven(torch.bfloat16, 1)
    yield "bfloat16, one frame, fused AdamW", lambda: _seven(torch.bfloat16, 1, fused=True)
    yield "bfloat16, 16 frames, fused AdamW", lambda: _seven(torch.bfloat16, 16, fused=True)
    yield "bfloat16, 16 frames, fused AdamW, checkpoints", lambda: _seven(torch.bfloat16, 16, recomputed, fused=True)


def _growing(sizes: tuple[int, ...], before_step: Callable = lambda: None, expandable: bool = False) -> Figures:
    """Steps of these batches where no more may be reserved than an RTX 4090 has."""
    _allocator(expandable)
    torch.cuda.set_per_process_memory_fraction(_SMALLER / torch.cuda.get_device_properties(0).total_memory)
    try:
        return _steps(sizes, before_step)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
        _allocator(False)


def _allocator(expandable: bool) -> None:
    if not torch.cuda.get_device_name().endswith("(virtual)"):
        SET_ALLOCATOR_SETTINGS.value(f"expandable_segments:{expandable}")


def _steps(sizes: tuple[int, ...], before_step: Callable) -> Figures:
    model = policy()
    optimizer = _ADAM(model.parameters())
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    found: Figures = {"steps": 0}
    before = torch.cuda.memory_stats()["num_alloc_retries"]
    try:
        for size in sizes:
            optimizer.zero_grad()
            before_step()
            model.loss(*batch(size, model.config)).backward()
            optimizer.step()
            found["steps"] += 1
    except torch.OutOfMemoryError as error:
        found["message"] = str(error).partition(" If reserved")[0]
    stats = torch.cuda.memory_stats()
    return found | {
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "retries": stats["num_alloc_retries"] - before,
    }


def fragments() -> Rows:
    yield "24, 24", lambda: _growing((24, 24))
    yield "25, 25", lambda: _growing((25, 25))
    yield "26, 26", lambda: _growing((26, 26))
    yield "24, 16, 20, 24", lambda: _growing((24, 16, 20, 24))
    yield "16, 20, 24", lambda: _growing((16, 20, 24))
    yield "16, 20, 24, empty_cache() before each", lambda: _growing((16, 20, 24), torch.cuda.empty_cache)
    yield "16, 20, 25", lambda: _growing((16, 20, 25))
    yield "16, 20, 26", lambda: _growing((16, 20, 26))
    if not torch.cuda.get_device_name().endswith("(virtual)"):
        yield "16, 20, 26, expandable segments", lambda: _growing((16, 20, 26), expandable=True)
        yield "16, 20, 24, expandable segments", lambda: _growing((16, 20, 24), expandable=True)


STUDIES = {
    "levers of a training step": Study(
        ladder,
        "TinyVLA 350M, 24 frames, float32, AdamW once it has its moments; fused from the second row on unless said.",
        ("one_gpu/trading", "tensors/autograd"),
        "ghost",
    ),
    "AdamW's step": Study(
        optimizers, "TinyVLA 350M in float32: the step alone, gradients there.", ("one_gpu/memory",), "ghost"
    ),
    "mixed precision": Study(
        mixed_precision,
        "A training step of TinyVLA 350M, 32 frames, AdamW with foreach unless said; waits as observe() counts them; GradScaler from 256 on.",
        ("one_gpu/precision",),
        "ghost",
    ),
    "seven billion": Study(
        seven_billion, "A training step of TinyVLA 7B with AdamW once it has its moments.", ("one_gpu/memory",), "ghost"
    ),
    "batches that grow": Study(
        fragments,
        "TinyVLA 350M in float32 trains batches of these sizes; no more may be reserved than an RTX 4090 has.",
        ("one_gpu/trading",),
        "ghost",
    ),
}
