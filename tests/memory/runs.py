"""A plan's job, run for real: what the allocator of a card was asked for."""

from contextlib import nullcontext

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gpulab.cuda
from gpulab.memory import PRECISIONS, Job
from gpulab.model import TinyVLA
from tests.memory.light import Adam8bit, Adapted, Linear4bit
from tests.memory.steps import asked_for, batch

OPTIMIZERS = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "adamw 8-bit": Adam8bit}
CASTS = {"mixed bf16": torch.bfloat16, "mixed fp16": torch.float16}


def peak_of(job: Job, where: str) -> int:
    """Bytes asked for at the fullest moment of a training step that is not the first, or of a generation."""
    with gpulab.cuda.use(where, quiet=True):
        model = _model(job)
        torch.cuda.reset_peak_memory_stats()
        given = batch(where, job.config, job.batch)
        (_serve if job.mode == "serve" else _train)(job, model, given)
        return asked_for("peak")


def _model(job: Job) -> TinyVLA:
    dtype = torch.float32 if PRECISIONS[job.precision].weights == 4 else torch.bfloat16
    with torch.device("meta"):
        model = TinyVLA(job.config).to(dtype)
    _lighter(job, model)
    model.to_empty(device="cuda")
    if job.checkpointing:
        for layer in model.layers:
            layer.forward = _again(layer.forward)
    return model


def _lighter(job: Job, model: TinyVLA) -> None:
    """Quantised and adapted, as the job says; all but the adapters frozen then."""
    if job.lora or job.weight_bits < 16:
        model.requires_grad_(False)
    for layer in model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, linear in list(part.named_children()):
                base = Linear4bit(linear.weight) if job.weight_bits == 4 else linear
                if job.lora and name in job.lora_on:
                    base = Adapted(base, job.lora, linear.weight)
                setattr(part, name, base)


def _again(forward):
    return lambda *args: checkpoint(forward, *args, use_reentrant=False)


def _train(job: Job, model: nn.Module, given) -> None:
    trained = [p for p in model.parameters() if p.requires_grad]
    masters = [p.detach().float() for p in trained] if PRECISIONS[job.precision].master else trained
    optimizer = OPTIMIZERS[job.optimizer](masters, lr=0.1)
    _step_from_nothing(optimizer, masters)
    _pass(job, model, given)
    for parameter, master in zip(trained, masters):
        if master is not parameter:
            master.grad, parameter.grad = parameter.grad.float(), None
    optimizer.step()


def _step_from_nothing(optimizer: torch.optim.Optimizer, weights: list) -> None:
    """The optimizer's state is there from then on."""
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    optimizer.zero_grad()


def _pass(job: Job, model: nn.Module, given) -> None:
    dtype = CASTS.get(job.precision)
    with torch.autocast("cuda", dtype=dtype) if dtype else nullcontext():
        loss = model.loss(*given)
    loss.backward()


def _serve(job: Job, model: nn.Module, given) -> None:
    model.generate(given[0], given[1])
