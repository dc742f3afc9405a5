"""Warp shuffles, votes and barriers."""

import numpy as np
import pytest
import torch

from gpulab.kernels import MemoryFault, cuda
from tests.kernels.simt import corpus
from tests.kernels.simt.launching import ORDERS, launched, sound, zeros


def run(name, order=None):
    kernel, grid, block, _, arguments = corpus.warp_cases()[name]
    launch = launched(kernel, grid, block, *arguments, order=order)
    assert sound(launch)
    return arguments


@pytest.mark.parametrize("order", ORDERS)
def test_shfl_down_sums_a_warp(order):
    out, x = run("warp_sum", order)
    np.testing.assert_allclose(out, [x[:32].sum(), x[32:].sum()])


def test_shfl_xor_gives_every_lane_the_sum_and_shfl_up_a_prefix_sum():
    out, x = run("butterfly_and_scan")
    np.testing.assert_allclose(out[:, 0], x[:32].sum())
    np.testing.assert_allclose(out[:, 1], x[:32].cumsum())
    np.testing.assert_array_equal(out[:, 2], np.roll(x[:32], -1))


def test_votes_and_bit_counts():
    (out,) = run("votes")
    np.testing.assert_array_equal(out, np.tile([11, 0, 1, 8, 3], (32, 1)))


@pytest.mark.parametrize("order", ORDERS)
def test_syncwarp_orders_the_lanes_of_a_warp(order):
    out, x = run("within_a_warp", order)
    np.testing.assert_array_equal(out, x.reshape(-1, 2)[:, ::-1].ravel())


@cuda.jit
def shuffle_in_a_branch(out):
    lane = cuda.laneid
    if lane < 16:
        out[lane] = cuda.shfl_down_sync(0xFFFFFFFF, lane, 8)


def test_a_shuffle_that_half_of_its_warp_reaches_is_a_fault():
    kinds = {fault.kind for fault in launched(shuffle_in_a_branch, 1, 32, zeros(32)).faults}
    assert kinds == {"lane missing from a warp operation", "shuffle from an inactive lane"}
    with pytest.raises(MemoryFault, match="lane missing"):
        shuffle_in_a_branch[1, 32](zeros(32))


@cuda.jit
def shuffle_of_half(out):
    lane = cuda.laneid
    if lane < 16:
        out[lane] = cuda.shfl_xor_sync(0xFFFF, lane, 1)


def test_a_shuffle_among_the_lanes_that_its_mask_names_is_sound():
    out = zeros(32)
    assert sound(launched(shuffle_of_half, 1, 32, out))
    assert out[:4].tolist() == [1, 0, 3, 2]


@cuda.jit
def partial_warp_sum(out, x):
    v = x[cuda.threadIdx.x]
    v += cuda.shfl_down_sync(0xFFFFFFFF, v, 1)
    out[cuda.threadIdx.x] = v


def test_reading_a_lane_that_has_no_thread_is_a_fault():
    launch = launched(partial_warp_sum, 1, 20, zeros(20), torch.ones(20))
    (fault,) = launch.faults
    assert fault.kind == "shuffle from an inactive lane"
    assert fault.thread == (0, 0, 0, 19, 0, 0)


@cuda.jit
def bits(out, a):
    i = cuda.threadIdx.x
    out[i, 0] = cuda.popc(a[i])
    out[i, 1] = cuda.clz(a[i])
    out[i, 2] = cuda.ffs(a[i])
    out[i, 3] = cuda.brev(a[i])


def test_bit_functions_agree_with_python():
    a = torch.tensor([0, 1, 2, 0x0F0F0F0F, 2**31 - 1, 40, 12345, 2**30], dtype=torch.int32)
    out = torch.zeros(8, 4, dtype=torch.int64)
    launched(bits, 1, 8, out, a)
    for row, number in zip(out.tolist(), a.tolist()):
        text = f"{number:032b}"
        lowest = len(text) - text.rfind("1") if number else 0
        assert row[:3] == [text.count("1"), len(text) - len(text.lstrip("0")), lowest]
        assert row[3] & 0xFFFFFFFF == int(text[::-1], 2)
