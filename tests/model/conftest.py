"""A policy before training and what it is given; the record of policies in fewer bytes."""

import numpy as np
import pytest
import torch

from gpulab.model import TinyVLA, quantised
from gpulab.model.world import WORDS, frames


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(0)
    return TinyVLA().eval()


@pytest.fixture(scope="module")
def given():
    """Images, word ids and action tokens of eight frames."""
    image, text, bins = frames(8, np.random.default_rng(3))
    return torch.from_numpy(image), torch.from_numpy(text), torch.from_numpy(bins + len(WORDS))


@pytest.fixture(scope="module")
def record():
    return quantised.record()


@pytest.fixture(scope="module")
def points(record):
    return {point["name"]: point for kind in ("weights", "adapted") for point in record[kind]}
