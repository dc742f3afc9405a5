"""The bytes of strided tensors, held against the sets that they stand for."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpulab.cuda.machine.strides import Cells, cells_of, meet

_LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=3)
_STRIDES = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16]), min_size=3, max_size=3)


def touched(shape, strides, itemsize, at=0) -> set[int]:
    firsts = (sum(i * s for i, s in zip(index, strides)) * itemsize for index in product(*map(range, shape)))
    return {at + first + byte for first in firsts for byte in range(itemsize)}


def cells(shape, strides, itemsize) -> Cells:
    return cells_of(shape, strides, itemsize) or Cells((), max(touched(shape, strides, itemsize)) + 1)


@settings(max_examples=400, deadline=None)
@given(_LENGTHS, _STRIDES, st.sampled_from([1, 2, 4]), _LENGTHS, _STRIDES, st.integers(-40, 40))
def test_two_sets_meet_where_they_have_a_byte_in_common(shape, strides, itemsize, others, their_strides, distance):
    one, other = (shape, strides, itemsize), (others, their_strides, 2)
    in_both = touched(*one) & touched(*other, at=distance)
    assert meet(cells(*one), cells(*other), distance) == bool(in_both)


@pytest.mark.parametrize(
    "shape, strides, expected",
    [
        ((4, 8), (8, 1), None),
        ((8, 4), (1, 8), None),
        ((4, 3, 8), (8, 0, 1), None),
        ((5, 4), (1, 1), None),
        ((64,), (2,), Cells(((64, 8),), 4)),
        ((16, 4), (8, 2), Cells(((64, 8),), 4)),
        ((16, 3), (8, 1), Cells(((16, 32),), 12)),
    ],
    ids=["matrix", "transposed", "expanded", "windows", "every second", "column of pairs", "narrowed"],
)
def test_dimensions_that_go_on_are_one(shape, strides, expected):
    assert cells_of(shape, strides, 4) == expected


def test_large_tensors_are_compared_in_few_steps():
    left, right = (cells_of(half.shape, half.stride(), 4) for half in torch.empty(4096, 4096).chunk(2, dim=1))
    assert not meet(left, right, 2048 * 4) and meet(left, right, 2048 * 4 - 1)


def test_sets_too_tangled_to_compare_are_taken_to_meet():
    one, other = Cells(((1 << 20, 30), (2, 7)), 1), Cells(((1 << 20, 42), (2, 11)), 1)
    assert meet(one, other, 3)
