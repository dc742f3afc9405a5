"""One program stores an element at one place of a tile and loads it at another: only a barrier puts the two in order."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from tests.kernels.tiles.test_compiler import cache, compiled  # noqa: F401
from tests.kernels.tiles.test_races import races  # noqa: F401


@triton.jit
def transposed(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    row_major = i[:, None] * N + i[None, :]
    tl.store(tmp_ptr + row_major, row_major.to(tl.float32))
    tl.store(out_ptr + row_major, tl.load(tmp_ptr + i[None, :] * N + i[:, None]))


@triton.jit
def one_of_the_row(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr, tl.load(tmp_ptr + 3))


@triton.jit
def shifted(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + i, tl.load(tmp_ptr + i - 1, mask=i > 0, other=0.0))


@triton.jit
def reversed_row(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def first_half(tmp_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, N // 2)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + j, tl.load(tmp_ptr + j))


@triton.jit
def row_for_all(tmp_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N), tl.arange(0, 2)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + j[:, None] * N + i[None, :], tl.load(tmp_ptr + i[None, :] + 0 * j[:, None]))


@triton.jit
def rows_then_columns(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    for r in range(N):
        tl.store(tmp_ptr + r * N + i, 2.0 * i)
    for c in range(N):
        tl.store(out_ptr + c * N + i, tl.load(tmp_ptr + i * N + c))


@triton.jit
def barrier_before_the_store(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.debug_barrier()
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def sum_between(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    total = tl.sum(2.0 * i, axis=0)
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i) / total)


@triton.jit
def relaxed_atomic_between(tmp_ptr, out_ptr, count_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.atomic_add(count_ptr, 1, sem="relaxed")
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def barrier_then_stored_again(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    for step in range(2):
        tl.store(tmp_ptr + i, step * i)
        tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))
        tl.debug_barrier()


RACING = [
    transposed,
    one_of_the_row,
    shifted,
    reversed_row,
    first_half,
    row_for_all,
    rows_then_columns,
    barrier_before_the_store,
    sum_between,
    relaxed_atomic_between,
    barrier_then_stored_again,
]


@triton.jit
def barrier_between(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def other_elements_stored_since_the_barrier(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.debug_barrier()
    tl.store(tmp_ptr + N + i, 2.0 * i)
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def wait_for_all():
    tl.debug_barrier()


@triton.jit
def barrier_in_a_function(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    wait_for_all()
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def same_pointers(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(tmp_ptr + i, tl.load(tmp_ptr + i) + 1.0)
    tl.store(out_ptr + i, tl.load(tmp_ptr + i))


@triton.jit
def same_pointers_under_another_mask(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i, mask=i < N - 1)
    tl.store(out_ptr + i, tl.load(tmp_ptr + i, mask=i > 2, other=0.0))


@triton.jit
def row_and_its_column_of_one(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i[None, :], 2.0 * i[None, :])
    tl.store(out_ptr + i, tl.load(tmp_ptr + i))


@triton.jit
def same_order_in_another_shape(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    j = tl.arange(0, N // 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out_ptr + j, tl.load(tmp_ptr + j))


@triton.jit
def scan_over_rows(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(tmp_ptr + i))
    for r in range(1, N):
        tl.store(out_ptr + r * N + i, tl.load(out_ptr + (r - 1) * N + i) + tl.load(tmp_ptr + r * N + i))


@triton.jit
def accumulated_in_memory(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, 0.0 * i)
    for r in range(N):
        tl.store(out_ptr + i, tl.load(out_ptr + i) + tl.load(tmp_ptr + r * N + i))


@triton.jit
def clamped_lanes_that_agree(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.minimum(tl.arange(0, N), 5)
    tl.store(tmp_ptr + i, 2.0 * i)
    tl.store(out_ptr + tl.arange(0, N), tl.load(tmp_ptr + i))


@triton.jit
def transposed_in_registers(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(tmp_ptr + at, at.to(tl.float32))
    tl.store(out_ptr + at, tl.trans(tl.load(tmp_ptr + at)))


@triton.jit
def transposed_from_what_was_there(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i[:, None] * N + i[None, :], tl.load(tmp_ptr + i[None, :] * N + i[:, None]))
    tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def counted_between(tmp_ptr, out_ptr, count_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(tmp_ptr + i, 2.0 * i)
    if tl.atomic_add(count_ptr, 1) == 0:
        tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))


@triton.jit
def through_a_descriptor(tmp_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tile = tl.make_tensor_descriptor(tmp_ptr, shape=[N, N], strides=[N, 1], block_shape=[N, N])
    at = i[:, None] * N + i[None, :]
    tile.store([0, 0], at.to(tl.float32))
    tl.store(out_ptr + at, tl.load(tmp_ptr + at))


IN_ORDER = [
    barrier_between,
    other_elements_stored_since_the_barrier,
    barrier_in_a_function,
    same_pointers,
    same_pointers_under_another_mask,
    row_and_its_column_of_one,
    same_order_in_another_shape,
    scan_over_rows,
    accumulated_in_memory,
    clamped_lanes_that_agree,
    transposed_in_registers,
    transposed_from_what_was_there,
    counted_between,
    through_a_descriptor,
]
N = 16


def arguments(kernel) -> dict:
    counts = {"count_ptr": torch.zeros(1, dtype=torch.int32)} if "count_ptr" in kernel.arg_names else {}
    return {"tmp_ptr": torch.zeros(N * N), "out_ptr": torch.zeros(N * N), **counts, "N": N}


@pytest.mark.parametrize("kernel", RACING, ids=lambda kernel: kernel.__name__)
def test_an_element_that_one_place_stored_and_another_loads_races(races, kernel):  # noqa: F811
    (race,) = races(kernel, 1, **arguments(kernel))
    assert (race.space, race.kind, race.array) == ("global", "read after write", "tmp_ptr")
    assert race.first_thread == race.second_thread == (0, 0, 0)
    assert "tl.store(tmp_ptr" in race.first_line.text and "tl.load(tmp_ptr" in race.second_line.text


@pytest.mark.parametrize("kernel", IN_ORDER, ids=lambda kernel: kernel.__name__)
def test_a_barrier_or_the_same_place_of_a_tile_keeps_them_in_order(races, kernel):  # noqa: F811
    assert races(kernel, 1, **arguments(kernel)) == ()


def test_the_element_is_the_first_that_is_loaded_elsewhere(races):  # noqa: F811
    # The diagonal of a transposed tile stays where it is.
    (race,) = races(transposed, 1, **arguments(transposed))
    assert race.index == (N,)


def test_each_program_has_barriers_of_its_own(races):  # noqa: F811
    @triton.jit
    def all_but_the_last_wait(tmp_ptr, out_ptr, N: tl.constexpr):
        i, p = tl.arange(0, N), tl.program_id(0)
        tl.store(tmp_ptr + p * N + i, 2.0 * i)
        if p < 2:
            tl.debug_barrier()
        tl.store(out_ptr + p * N + i, tl.load(tmp_ptr + p * N + N - 1 - i))

    (race,) = races(all_but_the_last_wait, 3, **arguments(all_but_the_last_wait))
    assert race.first_thread == race.second_thread == (2, 0, 0)


def test_what_another_program_stored_is_no_read_back(races):  # noqa: F811
    @triton.jit
    def one_stores_and_one_loads(tmp_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        if tl.program_id(0) == 0:
            tl.store(tmp_ptr + i, 2.0 * i)
        else:
            tl.store(out_ptr + i, tl.load(tmp_ptr + N - 1 - i))

    (race,) = races(one_stores_and_one_loads, 2, **arguments(one_stores_and_one_loads))
    assert race.first_thread != race.second_thread


def test_what_a_launch_before_stored_is_in_order(races):  # noqa: F811
    @triton.jit
    def stores(tmp_ptr, N: tl.constexpr):
        tl.store(tmp_ptr + tl.arange(0, N), 1.0 * tl.arange(0, N))

    @triton.jit
    def loads(tmp_ptr, out_ptr, N: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, N), tl.load(tmp_ptr + N - 1 - tl.arange(0, N)))

    tmp = torch.zeros(N)
    assert races(stores, 1, tmp_ptr=tmp, N=N) == ()
    assert races(loads, 1, tmp_ptr=tmp, out_ptr=torch.zeros(N), N=N) == ()


def test_an_array_given_twice_is_read_back_under_its_other_name(races):  # noqa: F811
    @triton.jit
    def under_another_name(one_ptr, other_ptr, out_ptr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(one_ptr + i, 2.0 * i)
        tl.store(out_ptr + i, tl.load(other_ptr + N - 1 - i))

    x = torch.zeros(N)
    (race,) = races(under_another_name, 1, one_ptr=x, other_ptr=x, out_ptr=torch.zeros(N), N=N)
    assert (race.array, race.index) == ("other_ptr", (N - 1,))


def test_pairs_that_are_stored_and_loaded_whole_have_the_place_of_the_pair(races):  # noqa: F811
    @triton.jit
    def pairs_twice(halves_ptr, out_ptr, N: tl.constexpr, REVERSED: tl.constexpr):
        pairs, j = halves_ptr.to(tl.pointer_type(tl.int32)), tl.arange(0, N)
        tl.store(pairs + j, j)
        tl.store(out_ptr + j, tl.load(pairs + (N - 1 - j if REVERSED else j), mask=j > 2, other=0))

    room = {"halves_ptr": torch.zeros(2 * N, dtype=torch.int16), "out_ptr": torch.zeros(N, dtype=torch.int32)}
    assert races(pairs_twice, 1, **room, N=N, REVERSED=False) == ()
    (race,) = races(pairs_twice, 1, **room, N=N, REVERSED=True)
    assert (race.array, race.index) == ("halves_ptr", (2 * N - 8,))


def test_elements_that_are_stored_one_by_one_and_loaded_in_pairs_race(races):  # noqa: F811
    @triton.jit
    def in_pairs(halves_ptr, out_ptr, N: tl.constexpr):
        i, j = tl.arange(0, N), tl.arange(0, N // 2)
        tl.store(halves_ptr + i, i.to(tl.int16))
        tl.store(out_ptr + j, tl.load(halves_ptr.to(tl.pointer_type(tl.int32)) + j))

    halves, out = torch.zeros(N, dtype=torch.int16), torch.zeros(N // 2, dtype=torch.int32)
    (race,) = races(in_pairs, 1, halves_ptr=halves, out_ptr=out, N=N)
    assert (race.kind, race.array) == ("read after write", "halves_ptr")


def test_one_load_may_race_with_another_program_and_inside_its_own(races):  # noqa: F811
    @triton.jit
    def both_halves(tmp_ptr, out_ptr, N: tl.constexpr):
        i, p = tl.arange(0, N), tl.program_id(0)
        if p == 0:
            tl.store(tmp_ptr + i, 2.0 * i)
        else:
            tl.store(tmp_ptr + N + i, 3.0 * i)
        j = tl.arange(0, 2 * N)
        tl.store(out_ptr + 2 * N * p + j, tl.load(tmp_ptr + j))

    found = [race for race in races(both_halves, 2, **arguments(both_halves)) if race.kind == "read after write"]
    inside_one = [race for race in found if race.first_thread == race.second_thread]
    assert len({race.first_line for race in inside_one}) == 2 and len(found) == 3


@pytest.mark.parametrize("warps", [1, 4])
def test_the_number_of_warps_makes_no_order(warps):
    with observe() as seen:
        reversed_row[(1,)](torch.zeros(N), torch.zeros(N), N=N, num_warps=warps)
    assert [race.kind for race in seen.launches[0].races] == ["read after write"]


def test_the_table_says_that_it_is_another_thread_of_the_program():
    with observe() as seen:
        reversed_row[(1,)](torch.zeros(N), torch.zeros(N), N=N)
    text = " ".join(seen.table().split())
    assert "race in global memory, read after write: tmp_ptr[15] by program (0, 0, 0) (" in text
    assert "and by another thread of that program (" in text


def test_the_table_counts_barriers():
    with observe() as seen:
        barrier_between[(3,)](torch.zeros(N), torch.zeros(N), N=N)
    (waits,) = (line for line in seen.launches[0].lines if "tl.debug_barrier" in line.line.text)
    assert (waits.barriers, seen.launches[0].total("barriers")) == (3, 3)


def between_store_and_load(kernel) -> str:
    """What Triton's compiler puts between the first store to global memory and the load after it, for an H100: PTX."""
    _, stored = compiled(kernel, tmp_ptr="*fp32", out_ptr="*fp32", N=64).split("st.global", 1)
    return stored.split("ld.global", 1)[0]


@pytest.mark.parametrize("kernel", [transposed, one_of_the_row, reversed_row, first_half], ids=lambda k: k.__name__)
def test_the_compiler_puts_no_barrier_between_a_store_and_a_load_of_global_memory(kernel):
    assert "bar." not in between_store_and_load(kernel)


def test_the_compiler_makes_a_barrier_of_all_threads_of_debug_barrier():
    assert "bar.sync" in between_store_and_load(barrier_between)
