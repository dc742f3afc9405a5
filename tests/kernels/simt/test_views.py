"""Rows and slices of arrays: what is found and counted through them."""

import torch

from gpulab.kernels import cuda, float32
from tests.kernels.simt.launching import at_line, floats, launched, sound, zeros


@cuda.jit
def doubles_a_row(out, a):
    y = cuda.blockIdx.x
    row, source = out[y], a[y]
    for x in range(cuda.threadIdx.x, row.size, cuda.blockDim.x):
        row[x] = 2 * source[x]


def test_a_row_is_a_part_of_its_array_with_the_sectors_of_one():
    a = floats(4 * 64).reshape(4, 64)
    out = zeros(4, 64)
    launch = launched(doubles_a_row, 4, 32, out, a)
    assert sound(launch) and torch.equal(out, 2 * a)
    counts = at_line(launch, "row[x] = 2 * source[x]")
    assert (counts.requests, counts.read_sectors, counts.written_sectors) == (16, 32, 32)


@cuda.jit
def writes_beyond_a_slice(x):
    part = x[2:6]
    part[cuda.grid(1)] = 1


def test_an_index_beyond_a_slice_is_found_though_the_array_goes_on():
    x = zeros(32)
    (fault,) = launched(writes_beyond_a_slice, 1, 32, x).faults
    assert (fault.kind, fault.array, fault.index, fault.count) == ("out of bounds", "x[2:6]", (4,), 28)
    assert x.sum() == 4


@cuda.jit
def a_row_that_is_not_there(a):
    a[cuda.grid(1)][0] = 1


def test_a_row_beyond_the_array_is_found_where_it_is_used():
    (fault,) = launched(a_row_that_is_not_there, 1, 8, zeros(4, 4)).faults
    assert (fault.array, fault.index, fault.count) == ("a", (4, 0), 4)


@cuda.jit
def races_through_a_slice(x):
    i = cuda.grid(1)
    tail = x[1:]
    tail[i] = x[i]


def test_a_race_through_a_slice_names_the_arrays_element():
    race = launched(races_through_a_slice, 1, 64, zeros(65)).races[0]
    assert race.array == "x" and 0 < race.index[0] < 65


@cuda.jit
def rows_in_a_loop(out, a):
    i = cuda.grid(1)
    best = a[0]
    for y in range(1, a.shape[0]):
        row = a[y]
        if row[i] > best[i]:
            best = row
    out[i] = best[0]


def test_a_name_may_stand_for_another_row_in_each_thread():
    a = torch.randn(5, 32)
    a[:, 0] = torch.arange(5)
    out = zeros(32)
    assert sound(launched(rows_in_a_loop, 1, 32, out, a))
    assert torch.equal(out, a.argmax(dim=0).float())


@cuda.jit
def sums_own_piece(out, x, length):
    i = cuda.grid(1)
    total = float32(0)
    for value in x[i * length : (i + 1) * length]:
        total += value
    out[i] = total


def test_a_slice_may_have_another_length_in_each_thread():
    out = zeros(4)
    assert sound(launched(sums_own_piece, 1, 4, out, floats(10), 3))
    assert out.tolist() == [3, 12, 21, 9]


@cuda.jit
def bins_of_an_own_row(counts, x):
    row = counts[cuda.blockIdx.x]
    cuda.atomic.add(row, int(x[cuda.grid(1)]), 1)


def test_an_atomic_on_a_row_is_one_on_its_array():
    counts = torch.zeros(2, 4, dtype=torch.int32)
    launch = launched(bins_of_an_own_row, 2, 32, counts, torch.ones(64))
    assert sound(launch) and counts.tolist() == [[0, 32, 0, 0]] * 2
    assert launch.array("counts").busiest_atomics == 32
