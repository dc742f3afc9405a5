"""What must be found every time, in lockstep and in every order in which warps take turns."""

import warnings

import pytest
import torch

from gpulab.kernels import MemoryFault, RaceWarning, cuda, float32, warp_order
from tests.kernels.simt.launching import ORDERS, floats, launched, sound, zeros

TILE = 16


@cuda.jit
def product(a, b, c):
    s = cuda.shared.array((TILE, TILE), float32)
    t = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1] // TILE):
        s[ty, tx] = a[y, k * TILE + tx]
        t[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += s[ty, j] * t[j, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def product_without_the_first_barrier(a, b, c):
    s = cuda.shared.array((TILE, TILE), float32)
    t = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1] // TILE):
        s[ty, tx] = a[y, k * TILE + tx]
        t[ty, tx] = b[k * TILE + ty, x]
        for j in range(TILE):
            total += s[ty, j] * t[j, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def product_without_the_second_barrier(a, b, c):
    s = cuda.shared.array((TILE, TILE), float32)
    t = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1] // TILE):
        s[ty, tx] = a[y, k * TILE + tx]
        t[ty, tx] = b[k * TILE + ty, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += s[ty, j] * t[j, tx]
    c[y, x] = total


def multiplied(kernel, order=None, n=32):
    torch.manual_seed(0)
    a, b, c = torch.randn(n, n), torch.randn(n, n), zeros(n, n)
    launch = launched(kernel, (n // TILE, n // TILE), (TILE, TILE), a, b, c, order=order)
    return launch, (c - a @ b).abs().max().item()


def lines_in_races(launch):
    return {(race.array, frozenset((race.first_line.text, race.second_line.text))) for race in launch.races}


STORE_A, STORE_B = "s[ty, tx] = a[y, k * TILE + tx]", "t[ty, tx] = b[k * TILE + ty, x]"
READ = "total += s[ty, j] * t[j, tx]"
BOTH_TILES = {("s", frozenset((STORE_A, READ))), ("t", frozenset((STORE_B, READ)))}


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_with_both_barriers_is_sound_and_right(order):
    launch, error = multiplied(product, order)
    assert sound(launch) and error < 1e-4


@pytest.mark.parametrize("order", ORDERS)
def test_the_missing_first_barrier_is_found_and_spoils_the_result(order):
    launch, error = multiplied(product_without_the_first_barrier, order)
    assert lines_in_races(launch) == BOTH_TILES
    assert not error < 1e-4


@pytest.mark.parametrize("order", ORDERS)
def test_the_missing_second_barrier_is_found(order):
    launch, _ = multiplied(product_without_the_second_barrier, order)
    assert lines_in_races(launch) == BOTH_TILES


def test_a_missing_barrier_warns_outside_observe():
    a = torch.randn(TILE, TILE)
    with pytest.warns(RaceWarning, match="shared memory, read after write") as warned:
        product_without_the_first_barrier[1, (TILE, TILE)](a, a, zeros(TILE, TILE))
    assert {str(w.message).split("write: ")[1][0] for w in warned} == {"s", "t"}
    assert all(w.filename == __file__ for w in warned)


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def add_without_a_guard(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


@pytest.mark.parametrize("order", ORDERS)
def test_a_missing_bounds_guard_is_found_with_thread_and_index(order):
    a, out = floats(100), zeros(100)
    launch = launched(add_without_a_guard, 4, 32, a, a, out, order=order)
    assert {(fault.kind, fault.array, fault.index, fault.count) for fault in launch.faults} == {
        ("out of bounds", name, (100,), 28) for name in ("a", "b", "out")
    }
    assert {fault.thread for fault in launch.faults} == {(3, 0, 0, 4, 0, 0)}
    assert torch.equal(out, 2 * a)
    assert sound(launched(add, 4, 32, a, a, out, order=order))


def test_out_of_bounds_outside_observe_is_an_error_that_names_thread_index_and_line():
    a = floats(100)
    with pytest.raises(MemoryFault) as raised:
        add_without_a_guard[4, 32](a, a, zeros(100))
    text = str(raised.value)
    assert "thread (4, 0, 0) of block (3, 0, 0)" in text
    assert "a[100]" in text and "shape (100,)" in text and "out[i] = a[i] + b[i]" in text
    assert raised.value.fault.index == (100,)


def test_nothing_outside_an_array_is_written():
    whole = floats(128)
    add_target = whole[:100]
    launched(add_without_a_guard, 4, 32, zeros(100), zeros(100), add_target)
    assert torch.equal(whole[100:], floats(28, start=100))
    assert not whole[:100].any()


@cuda.jit
def swapped(out, image):
    x, y = cuda.grid(2)
    if x < image.shape[1] and y < image.shape[0]:
        out[x, y] = image[x, y]


@pytest.mark.parametrize("order", ORDERS)
def test_swapped_indices_are_found_out_of_bounds_on_an_image_that_is_not_square(order):
    launch = launched(swapped, (2, 1), (32, 20), zeros(20, 60), zeros(20, 60), order=order)
    assert {(fault.kind, fault.array) for fault in launch.faults} == {
        ("out of bounds", "out"),
        ("out of bounds", "image"),
    }


def test_swapped_indices_on_a_square_image_show_in_the_sectors():
    launch = launched(swapped, 1, (32, 32), zeros(32, 32), zeros(32, 32))
    assert launch.memory_efficiency == 4 / 32


@cuda.jit
def everyone_increments(total):
    total[0] += 1


@pytest.mark.parametrize("order", ORDERS)
def test_an_increment_without_an_atomic_is_a_race_and_loses_updates(order):
    total = zeros(1)
    launch = launched(everyone_increments, 4, 64, total, order=order)
    assert {(race.space, race.array) for race in launch.races} == {("global", "total")}
    if order is None:
        assert total.item() < 256


@cuda.jit
def everyone_adds(total):
    cuda.atomic.add(total, 0, 1)


@pytest.mark.parametrize("order", ORDERS)
def test_an_atomic_increment_is_sound_and_loses_nothing(order):
    total = zeros(1)
    assert sound(launched(everyone_adds, 4, 64, total, order=order))
    assert total.item() == 256


@cuda.jit
def neighbours_through_global_memory(x):
    i = cuda.grid(1)
    x[i] = x[(i + 1) % x.size]


@pytest.mark.parametrize("order", ORDERS)
def test_a_read_of_what_another_block_writes_is_a_race(order):
    launch = launched(neighbours_through_global_memory, 4, 32, floats(128), order=order)
    blocks = [(race.first_thread[:3], race.second_thread[:3]) for race in launch.races]
    assert blocks


@cuda.jit
def block_barrier_does_not_order_blocks(x, out):
    i = cuda.grid(1)
    x[i] = i
    cuda.syncthreads()
    out[i] = x[(i + 32) % x.size]


@pytest.mark.parametrize("order", ORDERS)
def test_a_block_barrier_orders_a_block_and_not_the_grid(order):
    launch = launched(block_barrier_does_not_order_blocks, 2, 32, zeros(64), zeros(64), order=order)
    (race,) = launch.races
    assert race.space == "global" and race.first_thread[:3] != race.second_thread[:3]
    assert sound(launched(block_barrier_does_not_order_blocks, 1, 64, zeros(64), zeros(64), order=order))


@cuda.jit
def through_the_warp_without_syncwarp(out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = t
    out[t] = s[31 - t]


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_of_one_warp_race_without_syncwarp(order):
    (race,) = launched(through_the_warp_without_syncwarp, 1, 32, zeros(32), order=order).races
    assert race.kind == "read after write" and race.space == "shared"


@cuda.jit
def two_threads_write_one_element(out):
    i = cuda.grid(1)
    out[i // 2] = i


@pytest.mark.parametrize("order", ORDERS)
def test_an_element_that_two_threads_write_is_a_race(order):
    (race,) = launched(two_threads_write_one_element, 2, 32, zeros(32), order=order).races
    assert race.kind == "write after write"
    assert race.first_thread[3] // 2 == race.second_thread[3] // 2


@cuda.jit
def in_place_through_two_names(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


def test_arguments_that_share_memory_are_one_memory_to_the_detector():
    x = floats(65)
    (race,) = launched(in_place_through_two_names, 1, 64, x[:-1], x[1:]).races
    assert {race.kind} <= {"write after read", "read after write"}
    assert sound(launched(in_place_through_two_names, 1, 64, x[:32], x[32:64]))


@cuda.jit
def barrier_in_a_branch(out):
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncthreads()
    out[t] = t


@cuda.jit
def barrier_in_one_warps_branch(out):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.syncthreads()
    out[t] = t


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", [barrier_in_a_branch, barrier_in_one_warps_branch])
def test_a_barrier_that_part_of_a_block_reaches_is_a_fault(kernel, order):
    (fault,) = launched(kernel, 1, 64, zeros(64), order=order).faults
    assert fault.kind == "barrier not reached by all"
    assert fault.line.text == "cuda.syncthreads()"


def test_a_barrier_that_part_of_a_block_reaches_raises_outside_observe():
    with pytest.raises(MemoryFault, match="does not come to this barrier"):
        barrier_in_a_branch[1, 64](zeros(64))
    with warp_order(1), pytest.raises(MemoryFault, match="barrier not reached by all"):
        barrier_in_one_warps_branch[1, 64](zeros(64))


@cuda.jit
def return_before_the_barrier(x):
    s = cuda.shared.array(64, float32)
    i = cuda.grid(1)
    if i >= x.size:
        return
    s[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    x[i] = s[cuda.threadIdx.x]


def test_a_return_before_a_barrier_is_allowed_and_noted():
    """PG, Synchronization Functions, from capability 7.0: all non-exited threads."""
    launch = launched(return_before_the_barrier, 1, 64, zeros(50))
    assert sound(launch)
    (note,) = launch.warnings
    assert "returned before this barrier" in note


@cuda.jit
def reads_what_nobody_wrote(out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t != 7:
        s[t] = t
    cuda.syncthreads()
    out[t] = s[t]


@pytest.mark.parametrize("order", ORDERS)
def test_shared_memory_that_nobody_wrote_is_poison_in_every_block_of_every_launch(order):
    for _ in range(2):
        out = zeros(64)
        (fault,) = launched(reads_what_nobody_wrote, 3, 64, out, order=order).faults
        assert (fault.kind, fault.array, fault.index, fault.count) == ("uninitialised read", "s", (7,), 3)
        assert torch.isnan(out).nonzero().flatten().tolist() == [7]


@cuda.jit
def local_memory_unwritten(out):
    own = cuda.local.array(4, float32)
    own[0] = 1
    out[cuda.grid(1)] = own[0] + own[1]


def test_local_memory_that_was_not_written_is_a_fault():
    (fault,) = launched(local_memory_unwritten, 1, 32, zeros(32)).faults
    assert (fault.kind, fault.array, fault.index, fault.count) == ("uninitialised read", "own", (1,), 32)


@cuda.jit
def negative_index(x):
    i = cuda.grid(1)
    x[i] = i
    if i == 0:
        x[-1] = 5


def test_a_negative_index_counts_from_the_end_as_numba_does_and_is_noted():
    x = zeros(32)
    launch = launched(negative_index, 1, 16, x)
    assert x[31] == 5 and sound(launch)
    assert "negative index of x" in launch.warnings[0]


@cuda.jit
def ends_never(x):
    i = cuda.grid(1)
    while x[i] == 0:
        pass


def test_a_loop_without_an_end_is_stopped(monkeypatch):
    from gpulab.kernels import EndlessLoop
    from gpulab.kernels.simt import run

    monkeypatch.setattr(run, "MAX_TURNS", 200)
    with pytest.raises(EndlessLoop, match="while x"):
        ends_never[1, 32](zeros(32))


def test_a_sound_kernel_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        add[4, 32](floats(100), floats(100), zeros(100))


@cuda.jit
def through_another_name(x):
    y = x
    i = cuda.grid(1)
    y[i // 2] = i


@pytest.mark.parametrize("order", ORDERS)
def test_a_race_through_another_name_of_an_array_is_found(order):
    (race,) = launched(through_another_name, 1, 32, zeros(16), order=order).races
    assert race.array == "x"
