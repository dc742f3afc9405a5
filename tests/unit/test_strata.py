"""Draws that visit every stratum."""

import itertools

import pytest
import torch

from autograder.core.sampler import Sampler
from autograder.core.strata import LAYOUTS

SEEDS = range(20)
FACTORS = {"dtype": ["a", "b", "c"], "layout": [1, 2, 3, 4], "sign": [True, False], "empty": [None]}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_two_options_of_different_factors_meet(seed):
    combinations = list(Sampler(seed).cover(**FACTORS))
    for (a, options), (b, others) in itertools.combinations(FACTORS.items(), 2):
        met = {(c[a], c[b]) for c in combinations}
        assert met == set(itertools.product(options, others))
    assert len(combinations) <= 16


def test_one_factor_is_visited_whole():
    assert sorted(c["n"] for c in Sampler(1).cover(n=[3, 1, 2])) == [1, 2, 3]


def test_options_need_not_be_hashable():
    assert len(list(Sampler(1).cover(shape=[[1], [2]], x=[torch.ones(1)]))) == 2


def test_shuffled_options_come_in_an_order_of_the_seed():
    orders = {tuple(Sampler(seed).shuffled(1, 2, 3)) for seed in SEEDS}
    assert all(sorted(order) == [1, 2, 3] for order in orders) and len(orders) > 3


def test_around_is_the_boundary_and_both_sides():
    assert sorted(Sampler(1).around(32)) == [31, 32, 33]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("unit", "most"), [(32, 200), (1, 9), (16, 64)])
def test_sizes_hold_what_a_unit_divides_and_what_not(seed, unit, most):
    sizes = Sampler(seed).sizes(unit, most)
    assert {1, unit, unit + 1} <= set(sizes) and max(sizes) <= most
    assert any(n > unit and n % unit == 0 for n in sizes)
    assert unit == 1 or any(n > unit + 1 and n % unit for n in sizes)
    assert len(set(sizes)) == len(sizes)


def test_sizes_without_room_are_refused():
    with pytest.raises(ValueError, match="no four units"):
        Sampler(1).sizes(32, 100)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_values_are_of_their_kind(dtype):
    made = {
        kind: Sampler(3).values(20, 30, kind=kind, dtype=dtype)
        for kind in ("positive", "negative", "mixed", "ties", "tiny", "huge")
    }
    assert made["positive"].min() > 0 and made["negative"].max() < 0
    assert made["mixed"].min() < 0 < made["mixed"].max()
    assert made["ties"].unique().numel() == 3
    assert 0 < made["tiny"].abs().max() < 1e-3 and made["huge"].abs().max() > 30
    assert all(x.isfinite().all() and x.dtype == dtype for x in made.values())
    assert made["huge"].abs().float().sum(1).isfinite().all()


def test_an_unknown_kind_of_values_is_refused():
    with pytest.raises(ValueError, match="there are positive"):
        Sampler(1).values(3, kind="odd")


def test_layouts_hold_the_same_values_otherwise_in_memory():
    x = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    found = dict(Sampler(1).layouts(x))
    assert set(found) == set(LAYOUTS)
    assert all(torch.equal(made, x) for made in found.values())
    assert found["offset"].storage_offset() and found["offset"].is_contiguous()
    assert len({made.stride() for made in found.values()}) == 5


def test_a_vector_has_the_layouts_of_one_dimension():
    assert set(dict(Sampler(1).layouts(torch.arange(7)))) == {"contiguous", "offset", "stepped"}
