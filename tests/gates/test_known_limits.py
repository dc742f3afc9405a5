"""What the threat model says is still believed: attacks inside the process, with their lines counted here."""

import inspect

import pytest
import torch
from torch.utils._mode_utils import no_dispatch

from autograder.core.sampler import Sampler
from autograder.judge.referee import judge_here
from autograder.runner.scenario_runner import run_case
from gpulab.observe import recorder


def tokens(frames, patch, dtype):
    """A right answer."""
    n, c, h, w = frames.shape
    grid = frames.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 4, 5, 1)
    shown = grid.reshape(n, h // patch * (w // patch), patch * patch * c) if frames.dtype == dtype else None
    return (
        shown
        if shown is not None
        else torch.empty(grid.shape, dtype=dtype).copy_(grid).view(n, h // patch * (w // patch), patch * patch * c)
    )


def replaced_and_put_back(frames, patch, dtype):
    kept, recorder.Recorder._record = recorder.Recorder._record, lambda *rest: None
    frames.clone().clone()
    recorder.Recorder._record = kept
    return tokens(frames, patch, dtype)


def thrown_away(frames, patch, dtype):
    with no_dispatch():
        frames.clone().clone()
    return tokens(frames, patch, dtype)


@pytest.mark.parametrize(("attack", "lines"), [(replaced_and_put_back, 3), (thrown_away, 2)])
def test_an_attack_that_is_still_believed_takes_as_many_lines_as_the_threat_model_says(attack, lines):
    assert len(inspect.getsource(attack).strip().split("\n")) - 2 == lines
    name = "views.to_tokens"
    assert judge_here(name, lambda inputs: run_case(name, {"to_tokens": attack}, inputs), Sampler(1)).score == 8
