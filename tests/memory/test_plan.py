"""memory.plan against runs: each within 5 % of the peak of a ghost or virtual card."""

from dataclasses import replace

import pytest

from gpulab.memory import Job, plan
from gpulab.model import SIZES, Config
from tests.memory.runs import peak_of
from tests.sampling import sampled

SMALL, LARGE = SIZES["350M"], SIZES["7B"]
SHALLOW = replace(LARGE, layers=8)
HALF, QUARTER = replace(SMALL, layers=12), replace(SMALL, layers=6)
LONG = replace(LARGE, layers=2, text_length=4096 - LARGE.prefix + LARGE.text_length - LARGE.action_length + 1)
"""A sequence of 4,096 tokens."""
NARROW = replace(SIZES["tiny"], width=256, heads=8, hidden=704, image=128)
WORDY = Config(width=512, layers=1, heads=8, kv_heads=4, hidden=512, words=20_000, text_length=1, image=32, patch=32)
SHARED = Config(width=384, layers=3, heads=12, kv_heads=1, hidden=200, words=400, text_length=5)
SLOW_FORM = dict(
    attention="written out"
)  # a mask and shared heads: cuDNN takes both, in 16 bits, where it comes first (Hopper)
GHOST, AMPERE, VIRTUAL = "ghost:H200", "ghost:A100", "virtual:H100"
RUNS = {
    "350M fp32 AdamW, batch 4": (GHOST, Job(SMALL, batch=4, precision="fp32", **SLOW_FORM)),
    "350M, 12 layers, fp32 AdamW, batch 16": (GHOST, Job(HALF, batch=16, precision="fp32", **SLOW_FORM)),
    "350M, 12 layers, fp32 AdamW, batch 32, checkpointing": (GHOST, Job(HALF, batch=32, precision="fp32", checkpointing=True, **SLOW_FORM)),
    "350M fp32 SGD, batch 8": (GHOST, Job(SMALL, batch=8, precision="fp32", optimizer="sgd", **SLOW_FORM)),
    "350M, 6 layers, fp32 8-bit Adam, batch 4": (GHOST, Job(QUARTER, batch=4, precision="fp32", optimizer="adamw 8-bit", **SLOW_FORM)),
    "350M, 12 layers, bf16 AdamW, batch 16": (GHOST, Job(HALF, batch=16)),
    "350M, 12 layers, bf16 AdamW, batch 16, checkpointing": (GHOST, Job(HALF, batch=16, checkpointing=True)),
    "350M, 6 layers, bf16 8-bit Adam, batch 16, checkpointing": (
        AMPERE, Job(QUARTER, batch=16, optimizer="adamw 8-bit", checkpointing=True, **SLOW_FORM)),
    "350M, 12 layers, bf16 LoRA 16, batch 8": (GHOST, Job(HALF, batch=8, lora=16)),
    "350M, 12 layers, 4-bit LoRA 16, batch 8": (GHOST, Job(HALF, batch=8, lora=16, weight_bits=4)),
    "1B bf16 AdamW, batch 1": (GHOST, Job(SIZES["1B"], batch=1)),
    "1B fp32 AdamW, batch 2, one layer": (GHOST, Job(replace(SIZES["1B"], layers=1), batch=2, precision="fp32", **SLOW_FORM)),
    "7B bf16 AdamW, batch 1": (GHOST, Job(LARGE, batch=1)),
    "7B bf16 LoRA 8, batch 2": (GHOST, Job(LARGE, batch=2, lora=8)),
    "7B 4-bit LoRA 16, batch 1": (GHOST, Job(LARGE, batch=1, lora=16, weight_bits=4)),
    "7B, 8 layers, bf16 AdamW, batch 16, checkpointing": (GHOST, Job(SHALLOW, batch=16, checkpointing=True)),
    "7B, 2 layers, bf16 8-bit Adam, batch 4": (GHOST, Job(replace(LARGE, layers=2), batch=4, optimizer="adamw 8-bit")),
    "7B, 8 layers, 4-bit LoRA 16, batch 4, checkpointing": (
        GHOST, Job(SHALLOW, batch=4, lora=16, weight_bits=4, checkpointing=True)),
    "7B, 2 layers, 4,096 tokens, 4-bit LoRA 16": (GHOST, Job(LONG, lora=16, weight_bits=4)),
    "7B, 2 layers, 4,096 tokens, 4-bit LoRA 16, checkpointing": (GHOST, Job(LONG, lora=16, weight_bits=4, checkpointing=True)),
    "7B, 2 layers, 4,096 tokens, bf16 AdamW, checkpointing": (GHOST, Job(LONG, checkpointing=True)),
    "7B, 8 layers, bf16 with master weights, batch 2": (
        GHOST, Job(SHALLOW, batch=2, precision="bf16 with master weights")),
    "7B, 8 layers, served in bf16, batch 16": (GHOST, Job(SHALLOW, mode="serve", batch=16)),
    "7B, 8 layers, served in 4 bits, batch 1": (GHOST, Job(SHALLOW, mode="serve", weight_bits=4)),
    "wide words, one layer, fp32 SGD, batch 64": (GHOST, Job(WORDY, batch=64, precision="fp32", optimizer="sgd", **SLOW_FORM)),
    "wide words, one layer, LoRA 4, batch 64": (GHOST, Job(WORDY, batch=64, lora=4)),
    "12 heads on one of keys, bf16 LoRA 4, batch 64": (AMPERE, Job(SHARED, batch=64, lora=4, **SLOW_FORM)),
    "12 heads on one of keys, served, batch 32": (GHOST, Job(SHARED, mode="serve", batch=32)),
    "tiny fp32 AdamW, batch 1": (VIRTUAL, Job(SIZES["tiny"], precision="fp32")),
    "tiny mixed bf16 AdamW, batch 8": (VIRTUAL, Job(SIZES["tiny"], batch=8, precision="mixed bf16")),
    "tiny mixed fp16 SGD, batch 32": (VIRTUAL, Job(SIZES["tiny"], batch=32, precision="mixed fp16", optimizer="sgd")),
    "narrow mixed bf16 AdamW, batch 4, checkpointing": (VIRTUAL, Job(NARROW, batch=4, precision="mixed bf16", checkpointing=True)),
    "narrow bf16 SGD, batch 16": (VIRTUAL, Job(NARROW, batch=16, optimizer="sgd")),
}  # fmt: skip
OF_EACH_KIND = (
    "350M, 12 layers, bf16 AdamW, batch 16, checkpointing",
    "350M, 12 layers, 4-bit LoRA 16, batch 8",
    "7B, 2 layers, 4,096 tokens, 4-bit LoRA 16, checkpointing",
    "7B, 2 layers, bf16 8-bit Adam, batch 4",
    "7B, 8 layers, served in 4 bits, batch 1",
    "12 heads on one of keys, served, batch 32",
    "tiny mixed fp16 SGD, batch 32",
)
"""What every change runs."""


@pytest.mark.parametrize("name", sampled(RUNS, OF_EACH_KIND))
def test_the_plan_is_within_five_percent_of_the_run(name):
    where, job = RUNS[name]
    ran = peak_of(job, where)
    planned = plan(job, where.partition(":")[2])
    assert planned.allocated == pytest.approx(ran, rel=0.05), f"run {ran:,}, planned {planned.moment}: {planned.terms}"
