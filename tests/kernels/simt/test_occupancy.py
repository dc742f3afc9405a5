"""Occupancy matches NVIDIA's tables.

CUDA C++ Programming Guide, Technical Specifications per Compute Capability; Best Practices Guide; cuda_occupancy.h for the
units of allocation.
"""

import pytest

import gpulab
from gpulab.cards.multiprocessors import multiprocessor
from gpulab.kernels import cuda, float32
from gpulab.kernels.simt.occupancy import occupancy
from tests.kernels.simt.launching import launched, zeros


def held(threads, registers=0, shared=0, capability=(9, 0)):
    found = occupancy(threads, registers, shared, multiprocessor(capability))
    return found.blocks, found.limit


def test_128_threads_with_37_registers_reach_three_quarters():
    """BPG, Calculating Occupancy, capability 7.0: 75 % with 12 active 128-thread blocks."""
    found = occupancy(128, 37, 0, multiprocessor((7, 0)))
    assert (found.blocks, found.share, found.limit) == (12, 0.75, "registers")


def test_320_threads_with_37_registers_reach_63_percent():
    """BPG, Calculating Occupancy: only four 320-thread blocks can reside."""
    found = occupancy(320, 37, 0, multiprocessor((7, 0)))
    assert (found.blocks, found.share) == (4, 0.625)


def test_32_registers_leave_room_for_all_warps_and_33_do_not():
    """BPG, Calculating Occupancy: for 100 % each thread can use at most 32 registers."""
    assert occupancy(256, 32, 0, multiprocessor((7, 0))).share == 1.0
    assert occupancy(256, 33, 0, multiprocessor((7, 0))).share < 1.0


@pytest.mark.parametrize(
    "capability, warps, blocks",
    [((7, 5), 32, 16), ((8, 0), 64, 32), ((8, 6), 48, 16), ((8, 9), 48, 24), ((9, 0), 64, 32)],
)
def test_resident_warps_and_blocks_follow_the_table(capability, warps, blocks):
    """PG, Technical Specifications: resident blocks and warps per SM."""
    small = occupancy(32, 0, 0, multiprocessor(capability))
    assert (small.blocks, small.limit) == (blocks, "blocks")
    large = occupancy(1024, 0, 0, multiprocessor(capability))
    assert (large.blocks, large.max_warps, large.limit) == (warps // 32, warps, "warps")


@pytest.mark.parametrize("capability, kib", [((7, 5), 64), ((8, 0), 163), ((8, 6), 99), ((8, 9), 99), ((9, 0), 227)])
def test_the_largest_block_of_shared_memory_follows_the_table(capability, kib):
    """PG, Technical Specifications: maximum amount of shared memory per thread block."""
    assert held(256, shared=kib * 1024, capability=capability) == (1, "shared memory")
    with pytest.raises(ValueError, match="shared memory"):
        occupancy(256, 0, kib * 1024 + 1, multiprocessor(capability))


@pytest.mark.parametrize("capability, blocks", [((7, 5), 2), ((8, 0), 4), ((8, 6), 3), ((8, 9), 3), ((9, 0), 6)])
def test_blocks_of_32_kib_of_shared_memory(capability, blocks):
    """PG table and cuda_occupancy.h: 64, 164, 100, 100 and 228 KiB; from 8.0 on the system takes
    1 KiB more of each block's share."""
    assert held(128, shared=32 * 1024, capability=capability) == (blocks, "shared memory")


def test_registers_are_given_to_warps_in_multiples_of_256():
    """cuda_occupancy.h: 65 registers a thread take 72 x 32 a warp."""
    assert held(256, registers=65) == held(256, registers=72)
    assert held(256, registers=64)[0] > held(256, registers=65)[0]


def test_255_registers_leave_eight_warps():
    """PG, Technical Specifications: 64 K registers, 255 a thread at most."""
    assert held(256, registers=255) == (1, "registers")
    with pytest.raises(ValueError, match="registers"):
        occupancy(256, 256, 0, multiprocessor((9, 0)))


def test_72_registers_cannot_run_in_a_block_of_1024():
    """PG, Technical Specifications: 64 K registers for a block."""
    with pytest.raises(ValueError, match="registers"):
        occupancy(1024, 72, 0, multiprocessor((9, 0)))


def test_a_block_of_three_warps_is_not_rounded_up_to_four():
    """cuda_occupancy.h: blocks = warps per SM / warps per block, both unrounded."""
    assert held(96, registers=37, capability=(7, 0)) == (16, "registers")


@cuda.jit
def with_shared(out):
    s = cuda.shared.array(12 * 1024, float32)
    s[cuda.threadIdx.x] = 1
    out[cuda.grid(1)] = s[cuda.threadIdx.x]


def test_a_launch_says_what_binds_on_the_card_that_is_on():
    with gpulab.cuda.use("virtual:T4", quiet=True):
        on_t4 = launched(with_shared, 1, 128, zeros(128))
    with gpulab.cuda.use("virtual:H100", quiet=True):
        on_h100 = launched(with_shared, 1, 128, zeros(128))
    assert (on_t4.occupancy.blocks, on_t4.occupancy.limit) == (1, "shared memory")
    assert on_h100.occupancy.blocks == 228 // 49
    assert on_t4.shared_bytes == 48 * 1024
