"""What the page "Eight bits and four" says of torchao: its lines, run with the pinned release."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import gpulab
from gpulab.model import load
from gpulab.model.world import WORDS, frames

PAGE = Path(__file__).parents[2] / "chapters" / "one_gpu" / "eight_bits.md"


@pytest.fixture(scope="module")
def policy():
    (lines,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names = {"load": load}
    exec(lines, names)
    return names["policy"]


def test_the_layers_of_the_blocks_are_converted_and_the_head_is_not(policy):
    kinds = Counter(type(module).__name__ for module in policy.modules())
    assert kinds["Float8Linear"] == 28 and type(policy.lm_head) is torch.nn.Linear


def test_each_casts_six_times_a_step_and_holds_nothing_in_eight_bits(policy):
    image, text, bins = frames(2, np.random.default_rng(3))
    with gpulab.observe() as seen:
        policy.loss(*map(torch.from_numpy, (image, text, bins + len(WORDS)))).backward()
    casts = Counter(op.dtype for op in seen.ops if "float8" in str(op.dtype))
    assert casts == {"float8_e4m3fn": 4 * 28, "float8_e5m2": 2 * 28}
    assert {p.dtype for p in policy.parameters()} == {p.grad.dtype for p in policy.parameters()} == {torch.float32}
