"""Where PyTorch sees a GPU, a backward pass starts threads for it, and processes forked later have none.

"Unable to handle autograd's threading in combination with fork-based multiprocessing": so a notebook that forks ranks goes
backward in ranks alone, also for what its checks compare with.
"""

import os

import pytest
import torch

from autograder.authoring.authored import run_notebook
from tests.gates.test_seen_cells_take_no_names import NOTEBOOKS


@pytest.mark.parametrize("chapter", ["data_parallel", "sharding", "parallelism", "stability"])
def test_a_notebook_goes_backward_in_its_ranks_alone(chapter, monkeypatch):
    here, backward, went = os.getpid(), torch.autograd.backward, []

    def noted(*args, **named):
        if os.getpid() == here:
            went.append(args)
        return backward(*args, **named)

    monkeypatch.setattr(torch.autograd, "backward", noted)
    assert run_notebook(NOTEBOOKS[chapter], {})[1] == {} and went == []
