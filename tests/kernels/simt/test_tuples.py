"""Tuples of arrays, and named ones, as arguments."""

from typing import NamedTuple

import pytest
import torch

from gpulab.kernels import cuda
from tests.kernels.simt.launching import floats, launched, sound, zeros


class Pair(NamedTuple):
    source: torch.Tensor
    target: torch.Tensor
    scale: float


@cuda.jit
def of_a_tuple(arrays, n):
    i = cuda.grid(1)
    if i < n:
        arrays[1][i] = arrays[0][i] * arrays[2]


@cuda.jit
def of_a_named_tuple(pair):
    i = cuda.grid(1)
    if i < pair.target.size:
        pair.target[i] = pair.source[i] * pair.scale


@cuda.jit
def races_in_a_tuple(arrays):
    arrays[0][cuda.grid(1) // 2] = 1


def test_arrays_in_a_tuple_are_read_and_written_in_place():
    out = zeros(40)
    launch = launched(of_a_tuple, 2, 32, (floats(40), out, 3), 40)
    assert sound(launch) and torch.equal(out, 3 * floats(40))
    assert (launch.array("arrays[0]").read_bytes, launch.array("arrays[1]").written_bytes) == (160, 160)


def test_a_named_tuples_parts_go_by_their_names():
    out = zeros(40)
    assert sound(launched(of_a_named_tuple, 2, 32, Pair(floats(40), out, 0.5)))
    assert torch.equal(out, floats(40) / 2)


def test_a_race_on_an_array_in_a_tuple_is_found():
    (race,) = launched(races_in_a_tuple, 1, 32, (zeros(16),)).races
    assert race.array == "arrays[0]"


@pytest.mark.parametrize("argument", [{"a": 1}, ([1],), (None,)])
def test_what_no_kernel_takes_is_refused_in_a_tuple_too(argument):
    from gpulab.kernels import LaunchError

    with pytest.raises(LaunchError, match="arrays"):
        races_in_a_tuple[1, 32](argument)
