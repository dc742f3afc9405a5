"""An honest record agrees with itself; one that was doctored in one place does not."""

import copy

import pytest
import torch

from autograder.judge.consistency import inconsistency
from gpulab import observe


def seen_of(block) -> dict:
    with observe() as seen:
        block()
    return seen.to_dict()


def work():
    x = torch.rand(8, 8, requires_grad=True)
    y = torch.cat([x.t().reshape(-1), torch.zeros(3)]).to(torch.float64)
    y[y > 0].sum().backward()
    z = torch.empty(0)
    z.resize_(100).zero_().index_select(0, torch.tensor([1, 2]))
    [torch.ones(64) for _ in range(3)]


@pytest.mark.parametrize("block", [lambda: None, work, lambda: torch.rand(3).tolist()])
def test_what_the_recorder_writes_is_no_contradiction(block):
    assert inconsistency(seen_of(block)) is None


DOCTORED = {
    "copies left out": lambda seen: seen["copies"].clear(),
    "one copy left out": lambda seen: seen["copies"].pop(),
    "a copy too many": lambda seen: seen["copies"].append(seen["copies"][0]),
    "operations left out": lambda seen: seen["ops"].clear(),
    "nothing allocated": lambda seen: seen.update(new_bytes=0, peak_bytes=0),
    "less at the peak": lambda seen: seen.update(peak_bytes=8),
    "more at the peak than was allocated": lambda seen: seen.update(peak_bytes=10**9),
}


@pytest.mark.parametrize("what", DOCTORED)
def test_a_record_doctored_in_one_place_contradicts_itself(what):
    seen = copy.deepcopy(seen_of(work))
    DOCTORED[what](seen)
    assert inconsistency(seen)


@pytest.mark.parametrize("forged", [{}, {"ops": 3}, []])
def test_what_is_no_record_raises(forged):
    with pytest.raises((KeyError, TypeError)):
        inconsistency(forged)
