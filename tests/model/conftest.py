"""A policy before training, and what it is given."""

import numpy as np
import pytest
import torch

from gpulab.model import TinyVLA
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
