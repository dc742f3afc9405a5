"""What atomic operations cost: requests, turns within a warp, and the busiest element."""

import json

import pytest
import torch

import gpulab
from gpulab.kernels import cuda, int32
from gpulab.kernels.simt.requests import atomic_conflicts, bank_conflicts
from gpulab.observe import Observation
from tests.kernels.simt.launching import at_line, launched, sound

BINS = 8


@cuda.jit
def one_global_element(total):
    cuda.atomic.add(total, 0, 1)


@cuda.jit
def one_shared_element(out, spread):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, t // spread, 1)
    cuda.syncthreads()
    out[t] = s[t]


def ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


def test_an_atomic_instruction_of_a_warp_is_one_request():
    (counts,) = launched(one_global_element, 1, 64, ints(1)).lines
    assert (counts.requests, counts.atomics, counts.loads, counts.stores) == (2, 64, 64, 64)
    assert (counts.read_sectors, counts.written_sectors) == (2, 2)


@pytest.mark.parametrize("spread, further", [(1, 0), (2, 1), (8, 7), (32, 31)])
def test_shared_atomics_on_one_word_take_a_pass_each(spread, further):
    counts = at_line(launched(one_shared_element, 1, 64, ints(64), spread), "atomic.add")
    assert (counts.shared_requests, counts.bank_conflicts) == (2, 2 * further)
    assert counts.atomic_conflicts == 2 * further


@pytest.mark.parametrize("atomic, passes", [(False, 0), (True, 31)])
def test_a_load_of_one_word_is_a_broadcast_and_an_atomic_is_not(atomic, passes):
    import numpy as np

    assert bank_conflicts(np.zeros(32, np.int64), 4, np.arange(32), atomic) == passes


def test_conflicts_of_a_warp_are_those_of_its_busiest_element():
    import numpy as np

    elements = np.array([5] * 10 + [7] * 22 + list(range(32)))
    assert atomic_conflicts(elements, np.repeat([0, 1], 32)) == 21


@cuda.jit
def histogram(bins, x):
    i = cuda.grid(1)
    cuda.atomic.add(bins, x[i], 1)


@cuda.jit
def privatised(bins, x):
    own = cuda.shared.array(BINS, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t < BINS:
        own[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(own, x[i], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(bins, t, own[t])


def use_of_bins(kernel, x):
    bins = ints(BINS)
    launch = launched(kernel, 16, 64, bins, x)
    assert sound(launch) and torch.equal(bins, torch.bincount(x, minlength=BINS).int())
    return launch.array("bins")


def test_a_privatised_histogram_is_cheaper_at_its_busiest_bin():
    x = torch.zeros(1024, dtype=torch.int64)
    naive, private = use_of_bins(histogram, x), use_of_bins(privatised, x)
    assert (naive.atomics, naive.busiest_atomics) == (1024, 1024)
    assert (private.atomics, private.busiest_atomics) == (16 * BINS, 16)


def test_the_table_and_the_record_tell_of_contention():
    with gpulab.observe() as seen:
        histogram[16, 64](ints(BINS), torch.zeros(1024, dtype=torch.int64))
    text = " ".join(seen.table().split())
    assert "1024 atomics, 1024 of them on one element" in text and "turn" in text.partition("lanes")[0]
    again = Observation.from_dict(json.loads(json.dumps(seen.to_dict())))
    assert again.launches == seen.launches
