"""Figures of what is held: they say in words what they show, and refuse to draw nothing."""

import re

import pytest
import torch

from gpulab import memory
from gpulab.memory import Bytes
from gpulab.plots.held import _phases, _placed, held_bars, held_over_time


@pytest.fixture(scope="module")
def held():
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(200)))
    optimizer = torch.optim.AdamW(model.parameters())
    with memory.track(model, optimizer) as held:
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
    return held


def test_a_step_is_told_with_its_peak_and_its_end(held):
    figure = held_over_time(held, "One step.")
    assert f"after {held.peak_at.operation}" in figure.alt and f"the {held.peak_at.phase}" in figure.alt
    assert "optimizer 6.3 MiB" in figure.alt and figure.caption == "One step."
    assert {"parameters", "gradients", "optimizer"} <= set(re.findall(r">(\w+)<", figure.svg))


def test_of_a_long_step_the_fullest_moments_are_drawn_and_the_peak_among_them(held):
    places, drawn = _placed(_phases(held.timeline))
    assert len(drawn) <= 200 < len(held.timeline) and places == sorted(places) and places[-1] == 1
    assert max(bytes_.total for bytes_ in drawn) == held.peak.total


def test_a_short_phase_is_drawn_wide_enough_to_be_seen(held):
    shares = {name: share for name, run, share in _phases(held.timeline) if len(run) > 1}
    assert min(shares.values()) > 0.1 and {"forward", "backward", "step"} <= set(shares)


def test_bars_carry_their_sum_and_the_cards_line():
    rows = [("small", Bytes(parameters=1 << 30)), ("large", Bytes(parameters=1 << 30, activations=3 << 30))]
    figure = held_bars(rows, capacity=2 << 30)
    assert "large: 4.0 GiB, of it parameters 1.0 GiB, activations 3.0 GiB." in figure.alt
    assert "The card has 2.0 GiB." in figure.alt and ">4.0<" in figure.svg


def test_no_bars_are_refused():
    with pytest.raises(ValueError, match="no bars"):
        held_bars([])
