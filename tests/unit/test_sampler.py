"""Sampler: fresh inputs, the same for the same seed."""

import pytest
import torch

from autograder.core.sampler import Sampler


def sample(sampler: Sampler) -> tuple:
    return (
        sampler.integer(0, 10**9),
        sampler.choice(range(10**9)),
        sampler.permutation(range(50)),
        sampler.tensor(5, 7).tolist(),
    )


def test_the_same_seed_draws_the_same():
    assert sample(Sampler(5)) == sample(Sampler(5))


def test_another_seed_draws_something_else():
    assert all(a != b for a, b in zip(sample(Sampler(5)), sample(Sampler(6))))


def test_without_a_seed_no_two_draws_agree():
    assert sample(Sampler()) != sample(Sampler())


def test_drawing_leaves_the_global_generators_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    sample(Sampler())
    assert torch.equal(torch.rand(3), expected)


def test_an_integer_may_be_either_end():
    sampler = Sampler(1)
    assert {sampler.integer(1, 3) for _ in range(200)} == {1, 2, 3}


def test_chance_is_a_probability():
    sampler = Sampler(1)
    assert 350 < sum(sampler.chance(0.4) for _ in range(1000)) < 450


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_a_tensor_has_distinct_values_none_of_them_zero(dtype):
    for shape in ((7, 11), (4, 6)):
        values = Sampler(3).tensor(*shape, dtype=dtype)
        assert values.dtype == dtype and values.shape == shape
        assert values.unique().numel() == values.numel() and (values != 0).all()


def test_a_floating_tensor_has_both_signs():
    values = Sampler(3).tensor(100)
    assert values.min() < 0 < values.max()


def test_a_permutation_keeps_every_item_and_the_original():
    items = [1, 2, 3, 4]
    assert sorted(Sampler(1).permutation(items)) == items == [1, 2, 3, 4]
