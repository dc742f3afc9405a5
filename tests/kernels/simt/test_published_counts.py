"""Counts against answers that NVIDIA's guides print: coalescing, banks, divergence.

BPG: CUDA C++ Best Practices Guide. PG: CUDA C++ Programming Guide. Section titles are theirs.
"""

import math

import numpy as np
import pytest
import torch

from gpulab.kernels import cuda, float32, float64, int32
from tests.kernels.simt.launching import at_line, floats, launched, sound, zeros

PADDED = 32 + 1


@cuda.jit
def offset_copy(odata, idata, offset):
    xid = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x + offset
    odata[xid] = idata[xid]


@cuda.jit
def stride_copy(odata, idata, stride):
    xid = (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) * stride
    odata[xid] = idata[xid]


def sectors_of_a_warp(kernel, step, count=32 * 64, dtype=torch.float32):
    idata, odata = zeros(count, dtype=dtype), zeros(count, dtype=dtype)
    launch = launched(kernel, 1, 32, odata, idata, step)
    return launch.total("read_sectors"), launch.total("written_sectors")


def test_adjacent_words_take_four_transactions():
    """BPG, A Simple Access Pattern: adjacent 4-byte words, four 32-byte transactions."""
    assert sectors_of_a_warp(offset_copy, 0) == (4, 4)


@cuda.jit
def permuted_copy(odata, idata):
    lane = cuda.threadIdx.x
    other = lane ^ 21
    odata[other] = idata[other]


def test_words_permuted_across_the_segments_still_take_four():
    """BPG, A Simple Access Pattern: permuted within or across the four segments, still four."""
    launch = launched(permuted_copy, 1, 32, zeros(32), floats(32))
    assert (launch.total("read_sectors"), launch.total("written_sectors")) == (4, 4)


@cuda.jit
def some_lanes_copy(odata, idata):
    lane = cuda.threadIdx.x
    if lane % 3 == 0:
        odata[lane] = idata[lane]


def test_the_full_segment_is_fetched_when_some_threads_do_not_take_part():
    """BPG, A Simple Access Pattern: some threads did not participate, the full segment is fetched."""
    launch = launched(some_lanes_copy, 1, 32, zeros(32), floats(32))
    assert launch.total("read_sectors") == 4
    assert launch.total("read_bytes") == 11 * 4


@cuda.jit
def one_word_copy(odata, idata):
    odata[cuda.threadIdx.x] = idata[5]


def test_threads_that_read_one_word_take_one_transaction():
    """BPG, A Simple Access Pattern: several threads access the same word of a segment."""
    launch = launched(one_word_copy, 1, 32, zeros(32), floats(32))
    assert launch.total("read_sectors") == 1


def test_a_sequential_but_misaligned_warp_takes_five_segments():
    """BPG, A Sequential but Misaligned Access Pattern: five 32-byte segments are requested."""
    assert sectors_of_a_warp(offset_copy, 1) == (5, 5)


@pytest.mark.parametrize("offset", range(33))
def test_offset_copy_takes_four_transactions_for_multiples_of_eight_words_and_else_five(offset):
    """BPG, Effects of Misaligned Accesses (offsets 0 to 32 on a V100)."""
    expected = 4 if offset % 8 == 0 else 5
    assert sectors_of_a_warp(offset_copy, offset) == (expected, expected)


def test_a_misaligned_request_is_counted_as_one_and_an_aligned_one_is_not():
    """BPG, Effects of Misaligned Accesses."""
    idata = zeros(4096)
    assert launched(offset_copy, 1, 32, zeros(4096), idata, 1).total("misaligned_requests") == 2
    assert launched(offset_copy, 1, 32, zeros(4096), idata, 8).total("misaligned_requests") == 0


def test_a_view_that_begins_inside_a_sector_is_misaligned():
    """BPG, same section: allocations are aligned to 256 bytes; what begins later is not."""
    idata, odata = zeros(64), zeros(64)
    assert launched(offset_copy, 1, 32, odata[1:], idata[3:], 0).total("misaligned_requests") == 2


def test_a_numpy_view_that_begins_inside_a_sector_is_misaligned():
    """BPG, same section, for NumPy's arrays."""
    idata, odata = np.zeros(64, np.float32), np.zeros(64, np.float32)
    assert launched(offset_copy, 1, 32, odata[1:], idata[3:], 0).total("misaligned_requests") == 2


def test_a_few_lanes_within_one_sector_are_not_misaligned():
    """BPG, same section: four words inside one segment take one, wherever they begin."""
    launch = launched(offset_copy, 1, 4, zeros(64), zeros(64), 2)
    assert (launch.total("read_sectors"), launch.total("misaligned_requests")) == (1, 0)


def test_stride_two_takes_eight_segments_at_half_the_efficiency():
    """BPG, Strided Accesses: stride 2 loads eight L2 segments per warp, 50 % efficiency."""
    assert sectors_of_a_warp(stride_copy, 2) == (8, 8)
    launch = launched(stride_copy, 1, 32, zeros(64), zeros(64), 2)
    assert launch.memory_efficiency == 0.5
    assert launch.total("misaligned_requests") == 0


@pytest.mark.parametrize("stride, expected", [(1, 4), (2, 8), (3, 12), (4, 16), (8, 32), (16, 32), (32, 32)])
def test_bandwidth_falls_with_the_stride_until_every_lane_has_a_segment_of_its_own(stride, expected):
    """BPG, Strided Accesses: until 32 32-byte segments are loaded for the 32 threads."""
    assert sectors_of_a_warp(stride_copy, stride) == (expected, expected)


@pytest.mark.parametrize("dtype, expected", [(torch.float64, 8), (torch.float16, 2), (torch.int8, 1)])
def test_the_size_of_an_element_decides_the_segments(dtype, expected):
    """PG, Device Memory Accesses: words of 1, 2, 4, 8 or 16 bytes; 32 lanes of 8 bytes fill 8 segments."""
    assert sectors_of_a_warp(offset_copy, 0, dtype=dtype) == (expected, expected)


def test_16_byte_elements_fill_sixteen_segments():
    """PG, Device Memory Accesses: the largest word, 16 bytes."""
    assert sectors_of_a_warp(offset_copy, 0, dtype=torch.complex128) == (16, 16)


@cuda.jit
def transpose_naive(odata, idata):
    x, y = cuda.grid(2)
    odata[x, y] = idata[y, x]


def test_a_naive_transpose_writes_one_segment_a_lane():
    """BPG, Shared Memory in Matrix Multiplication (C = AA^T): strided accesses of the transpose."""
    launch = launched(transpose_naive, (2, 2), (32, 32), zeros(64, 64), zeros(64, 64))
    assert launch.total("read_sectors") == 64 * 64 * 4 // 32
    assert launch.total("written_sectors") == 64 * 64


# ---- banks of shared memory


@cuda.jit
def strided_shared(out, stride):
    s = cuda.shared.array(2048, float32)
    lane = cuda.threadIdx.x
    s[lane * stride] = lane
    out[lane] = s[lane * stride]


def conflicts(stride):
    return at_line(launched(strided_shared, 1, 32, zeros(32), stride), "out[lane]").bank_conflicts


def test_a_stride_of_one_word_has_no_bank_conflict():
    """PG, Shared Memory 5.x, Figure Strided Shared Memory Accesses, left."""
    assert conflicts(1) == 0


def test_a_stride_of_two_words_is_a_two_way_conflict():
    """PG, same figure, middle: two-way bank conflict, one more pass."""
    assert conflicts(2) == 1


def test_a_stride_of_three_words_has_no_bank_conflict():
    """PG, same figure, right."""
    assert conflicts(3) == 0


@pytest.mark.parametrize("stride", [4, 5, 7, 8, 16, 31, 32, 33, 48, 63])
def test_a_stride_makes_as_many_ways_as_it_shares_factors_with_32_banks(stride):
    """PG, Shared Memory 5.x: 32 banks, successive 32-bit words in successive banks."""
    assert conflicts(stride) == math.gcd(stride, 32) - 1


@cuda.jit
def indexed_shared(out, index):
    s = cuda.shared.array(1024, float32)
    lane = cuda.threadIdx.x
    for k in range(32):
        s[lane + 32 * k] = lane
    cuda.syncthreads()
    out[lane] = s[index[lane]]


def conflicts_at(index):
    index = torch.as_tensor(index, dtype=torch.int32)
    return at_line(launched(indexed_shared, 1, 32, zeros(32), index), "out[lane]").bank_conflicts


def test_a_random_permutation_is_free_of_conflicts():
    """PG, Figure Irregular Shared Memory Accesses, left."""
    assert conflicts_at(np.random.default_rng(0).permutation(32)) == 0


def test_threads_3_4_6_7_9_on_one_word_of_bank_5_are_free_of_conflicts():
    """PG, Figure Irregular Shared Memory Accesses, middle."""
    index = np.arange(32)
    index[[3, 4, 6, 7, 9]] = 5
    assert conflicts_at(index) == 0


def test_a_broadcast_is_free_of_conflicts():
    """PG, Figure Irregular Shared Memory Accesses, right."""
    assert conflicts_at(np.full(32, 64)) == 0


def test_two_words_of_one_bank_conflict_and_one_word_twice_does_not():
    """PG, Shared Memory 5.x: no conflict between threads that access the same 32-bit word."""
    index = np.arange(32)
    index[1] = 32
    assert conflicts_at(index) == 1
    index[2] = 32
    assert conflicts_at(index) == 1
    index[3] = 64
    assert conflicts_at(index) == 2


@cuda.jit
def transpose_tile(odata, idata):
    tile = cuda.shared.array((32, 32), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = idata[y, x]
    cuda.syncthreads()
    odata[y, x] = tile[x, y]


@cuda.jit
def transpose_padded_tile(odata, idata):
    tile = cuda.shared.array((32, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile[y, x] = idata[y, x]
    cuda.syncthreads()
    odata[y, x] = tile[x, y]


def test_reading_a_column_of_a_32_by_32_tile_is_a_32_way_conflict():
    """BPG, Shared Memory in Matrix Multiplication (C = AA^T): w-way bank conflicts, w = 32."""
    launch = launched(transpose_tile, 1, (32, 32), zeros(32, 32), zeros(32, 32))
    assert at_line(launch, "odata[y, x]").bank_conflicts == 31 * 32
    assert at_line(launch, "idata[y, x]").bank_conflicts == 0


def test_padding_the_tile_by_one_column_removes_the_conflicts():
    """BPG, same section: ``transposedTile[TILE_DIM][TILE_DIM+1]``."""
    idata, odata = torch.rand(32, 32), zeros(32, 32)
    launch = launched(transpose_padded_tile, 1, (32, 32), odata, idata)
    assert launch.total("bank_conflicts") == 0
    assert torch.equal(odata, idata.T) and sound(launch)


@cuda.jit
def shared_doubles(out, stride):
    s = cuda.shared.array(1024, float64)
    lane = cuda.threadIdx.x
    s[lane * stride] = lane
    out[lane] = s[lane * stride]


@pytest.mark.parametrize("stride, expected", [(1, 0), (2, 2), (16, 30)])
def test_64_bit_words_go_by_half_warps(stride, expected):
    """PG, Shared Memory 3.x and later: a 64-bit request is split in one for each half warp."""
    out = zeros(32, dtype=torch.float64)
    assert at_line(launched(shared_doubles, 1, 32, out, stride), "out[lane]").bank_conflicts == expected


@cuda.jit
def shared_bytes(out):
    s = cuda.shared.array(64, np.int8)
    lane = cuda.threadIdx.x
    s[lane] = 1
    out[lane] = s[lane]


def test_bytes_of_one_word_share_its_bank_without_conflict():
    """PG, Shared Memory 5.x: any address within the same 32-bit word."""
    assert launched(shared_bytes, 1, 32, zeros(32)).total("bank_conflicts") == 0


# ---- divergence


@cuda.jit
def alternating(out):
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = 1
    else:
        out[i] = 2


@cuda.jit
def by_warp(out):
    i = cuda.grid(1)
    if (i // 32) % 2 == 0:
        out[i] = 1
    else:
        out[i] = 2


def test_lanes_of_one_warp_that_branch_apart_execute_both_paths():
    """PG, SIMT Architecture: the warp executes each branch path taken, disabling threads not on it."""
    launch = launched(alternating, 1, 64, zeros(64))
    assert launch.total("divergent_branches") == 2
    assert at_line(launch, "= 1").instructions == at_line(launch, "= 2").instructions == 2
    assert at_line(launch, "= 1").active_lanes == 32


def test_branch_divergence_occurs_only_within_a_warp():
    """PG, SIMT Architecture: different warps execute independently. BPG: (threadIdx / WSIZE)."""
    launch = launched(by_warp, 1, 64, zeros(64))
    assert launch.total("divergent_branches") == 0
    assert at_line(launch, "= 1").instructions == at_line(launch, "= 2").instructions == 1
    assert launch.warp_efficiency == 1.0


def test_serialised_paths_double_what_a_warp_issues():
    """BPG, Branching and Divergence: different execution paths must be executed separately."""
    apart, together = (launched(kernel, 1, 64, zeros(64)) for kernel in (alternating, by_warp))
    stores = [sum(at_line(launch, f"= {k}").instructions for k in (1, 2)) for launch in (apart, together)]
    assert stores == [4, 2]


@cuda.jit
def four_ways(out):
    i = cuda.grid(1)
    if i % 4 == 0:
        out[i] = 1
    elif i % 4 == 1:
        out[i] = 2
    elif i % 4 == 2:
        out[i] = 3
    else:
        out[i] = 4


def test_k_paths_leave_a_warp_with_a_kth_of_its_lanes():
    """BPG, Branching and Divergence, for four paths."""
    launch = launched(four_ways, 1, 32, zeros(32))
    for k in (1, 2, 3, 4):
        assert at_line(launch, f"out[i] = {k}").active_lanes == 8
    assert launch.total("divergent_branches") == 3


@cuda.jit
def lane_long_loop(out):
    i = cuda.grid(1)
    n = 0
    while n < i:
        n += 1
    out[i] = n


def test_a_warp_loops_until_its_last_lane_is_done():
    """PG, SIMT Architecture: threads that leave a loop early are disabled until the others do."""
    launch = launched(lane_long_loop, 1, 32, zeros(32))
    body = at_line(launch, "n += 1")
    assert body.instructions == 31
    assert body.active_lanes == sum(range(32))


def test_blocks_are_filled_up_to_whole_warps():
    """PG, Thread Hierarchy / Occupancy: the number of warps in a block is ceil(T / 32)."""
    launch = launched(by_warp, 3, 33, zeros(99))
    assert at_line(launch, "i = cuda.grid(1)").instructions == 3 * 2 * 2 // 2
    assert at_line(launch, "i = cuda.grid(1)").active_lanes == 99


# ---- matrix multiplication of the guide


@cuda.jit
def simple_multiply(a, b, c):
    col, row = cuda.grid(2)
    total = float32(0)
    for i in range(32):
        total += a[row, i] * b[i, col]
    c[row, col] = total


def test_the_unoptimised_product_reads_one_word_of_a_for_all_lanes_of_a_warp():
    """BPG, Shared Memory in Matrix Multiplication (C = AB): for each i a warp reads one word of A
    (a broadcast of one segment) and a coalesced row of B (four)."""
    launch = launched(simple_multiply, 1, (32, 32), zeros(32, 32), torch.rand(32, 32), torch.rand(32, 32))
    assert at_line(launch, "total +=").read_sectors == 32 * 32 * (1 + 4)


@cuda.jit
def a_by_its_transpose(a, c):
    col, row = cuda.grid(2)
    total = float32(0)
    for i in range(32):
        total += a[row, i] * a[col, i]
    c[row, col] = total


def test_a_by_its_transpose_reads_a_segment_for_every_lane():
    """BPG, (C = AA^T): a[col * TILE_DIM + i] is strided by TILE_DIM."""
    launch = launched(a_by_its_transpose, 1, (32, 32), torch.rand(32, 32), zeros(32, 32))
    assert at_line(launch, "total +=").read_sectors == 32 * 32 * (1 + 32)


@cuda.jit
def reverse(d, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = d[t]
    cuda.syncthreads()
    d[t] = s[n - t - 1]


def test_the_reversal_of_the_guide_is_coalesced_and_free_of_conflicts():
    """NVIDIA Developer Blog, Using Shared Memory in CUDA C/C++ (staticReverse, n = 64)."""
    d = torch.arange(64, dtype=torch.int32)
    launch = launched(reverse, 1, 64, d, 64)
    assert d.tolist() == list(range(63, -1, -1)) and sound(launch)
    assert launch.memory_efficiency == 1.0 and launch.total("bank_conflicts") == 0
    assert launch.total("barriers") == 2
