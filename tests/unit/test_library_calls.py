"""Plain Python is told from calls into PyTorch and NumPy."""

import cProfile
import math
import sys

import numpy as np
import pytest
import torch
from torch.utils._mode_utils import no_dispatch

from autograder.scenarios.calls import library_calls

ARRAY, TENSOR, BUFFER = np.zeros(3), torch.zeros(3), bytearray(6)


def hidden():
    with no_dispatch():
        torch.empty(3)


def by_attributes():
    """Strides from NumPy, in which no function is called."""
    array = np.ndarray((2, 3), np.uint8, BUFFER)
    array.shape = (3, 2)
    return array.strides


def unwatched(switch_off, switch_on):
    switch_off()
    TENSOR.view(3)
    switch_on()


def unwatched_by_setprofile():
    watcher = sys.getprofile()
    unwatched(lambda: sys.setprofile(None), lambda: sys.setprofile(watcher))


def unwatched_by_another_profiler():
    watcher, profile = sys.getprofile(), cProfile.Profile()
    unwatched(profile.enable, lambda: sys.setprofile(watcher))


@pytest.mark.parametrize(
    ("call", "libraries"),
    [
        (lambda: sorted([math.prod([2, 3]), len("ab")]), set()),
        (lambda: torch.empty_strided((2,), (1,), device="meta"), {"torch"}),
        (lambda: TENSOR.view(3), {"torch"}),
        (lambda: np.empty(3), {"numpy"}),
        (lambda: ARRAY.reshape(3, 1), {"numpy"}),
        (lambda: np.lib.stride_tricks.as_strided(ARRAY, (2,), (8,)), {"numpy"}),
        (hidden, {"torch"}),
        (by_attributes, {"numpy"}),
        (unwatched_by_setprofile, {"sys.setprofile"}),
        (unwatched_by_another_profiler, {"sys.setprofile"}),
        (lambda: torch.Size([2, 3]), set()),
    ],
)
def test_the_library_that_was_called_is_named(call, libraries):
    with library_calls("torch", "numpy") as called:
        call()
    assert called == libraries


def test_a_profiler_that_was_there_is_put_back():
    def profiler(*arguments):
        pass

    sys.setprofile(profiler)
    with library_calls("torch"):
        pass
    found = sys.getprofile()
    sys.setprofile(None)
    assert found is profiler
