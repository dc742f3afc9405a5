"""Whether a tensor was written by PyTorch's operations from another, and from nothing unseen."""

import numpy as np
import pytest
import torch
from torch.utils._mode_utils import no_dispatch

from gpulab import observe


def by_numpy(x):
    made = torch.zeros(2, 3)
    made.numpy()[...] = x.numpy().T
    return made


def by_numpy_in_zeros_like_it(x):
    made = torch.zeros_like(x.t())
    made.numpy()[...] = x.numpy().T
    return made


def by_numpy_and_a_clone(x):
    return by_numpy(x).clone()


def by_numpy_and_a_conversion(x):
    return torch.from_numpy(np.ascontiguousarray(x.numpy().T)).to(torch.float64)


def by_hidden_copies(x):
    with no_dispatch():
        hidden = x.t().clone().clone()
    return hidden.clone()


def by_hidden_copies_and_one_element(x):
    made = torch.empty(2, 3)
    made.numpy()[...] = x.numpy().T
    made[0, :1].copy_(x[0, :1])
    return made


def by_hidden_copies_of_both(x):
    with no_dispatch():
        hidden = x.t().clone()
    return torch.cat([x.t()[:1], hidden[1:]])


def by_copy_into(x):
    return torch.empty(2, 3).copy_(x.t())


def by_slices(x):
    made = torch.zeros(2, 3)
    for row in range(2):
        made[row] = x[:, row]
    return made


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t().clone(),
        lambda x: x.t().to(torch.float64),
        lambda x: torch.cat([x[:, :1].t(), x[:, 1:].t()]),
        by_copy_into,
        by_slices,
        lambda x: x.t() + 0,
        lambda x: x.flatten()[torch.tensor([0, 2, 4])],
        lambda x: x.t().contiguous().clone(),
    ],
)
def test_operations_that_read_the_origin_made_it(make):
    x = torch.arange(6.0).view(3, 2)
    with observe() as seen:
        made = make(x)
    assert seen.made_of(made, x)


@pytest.mark.parametrize(
    "make",
    [
        by_numpy,
        by_numpy_in_zeros_like_it,
        by_numpy_and_a_clone,
        by_numpy_and_a_conversion,
        by_hidden_copies,
        by_hidden_copies_and_one_element,
        by_hidden_copies_of_both,
        lambda x: torch.zeros(2, 3),
        lambda x: torch.empty(2, 3),
    ],
)
def test_what_came_from_elsewhere_is_not_made_of_it(make):
    x = torch.arange(6.0).view(3, 2)
    with observe() as seen:
        made = make(x)
    assert not seen.made_of(made, x)
