"""What a launch did: values right, and loads, stores, bytes, masks and flops counted."""

import pytest
import torch

from gpulab import Observation, observe
from gpulab.kernels import tl, triton
from tests.kernels.tiles import kernels


def launch(kernel, grid, *arguments, **options):
    with observe() as seen:
        kernel[grid](*arguments, **options)
    (found,) = seen.launches
    return found


def test_add_computes_and_counts_each_element_once():
    x, y = torch.randn(5000), torch.randn(5000)
    out = torch.empty(5000)
    found = launch(kernels.add, (5,), x, y, out, 5000, BLOCK=1024)
    assert torch.equal(out, x + y)
    assert (found.name, found.language, found.grid) == ("add", "triton", (5, 1, 1))
    assert (found.total("loads"), found.total("stores")) == (10_000, 5_000)
    assert (found.total("read_bytes"), found.total("written_bytes")) == (40_000, 20_000)
    assert found.total("masked") == 3 * 120
    assert found.total("flops") == 5120
    assert found.faults == found.races == ()


def test_counts_stand_on_the_line_that_caused_them():
    out = torch.empty(64)
    found = launch(kernels.add, (1,), torch.randn(64), torch.randn(64), out, 64, BLOCK=64)
    loading, storing = found.lines
    assert (loading.loads, loading.stores, loading.flops) == (128, 0, 64)
    assert (storing.loads, storing.stores) == (0, 64)
    assert loading.line.text.startswith("total = tl.load") and loading.line.function == "add"
    assert storing.line.number == loading.line.number + 1


def test_the_launch_names_the_line_that_launched_it():
    with observe() as seen:
        kernels.copy[(1,)](torch.randn(8), torch.empty(8), 8, BLOCK=8)  # here
    assert seen.launches[0].line.text.endswith("# here")


def test_softmax_reads_once_and_writes_once():
    x = torch.randn(37, 100)
    out = torch.empty_like(x)
    found = launch(kernels.softmax, (37,), x, out, x.stride(0), 100, BLOCK=128)
    torch.testing.assert_close(out, x.softmax(1))
    read, written = found.array("x_ptr"), found.array("out_ptr")
    assert read.bytes == read.read_bytes == read.distinct_read_bytes == x.nbytes
    assert written.bytes == written.written_bytes == written.distinct_written_bytes == x.nbytes
    assert read.written_bytes == written.read_bytes == 0
    # max and sum: 127 each; minus, exp, divide: 128 each.
    assert found.total("flops") == 37 * (2 * 127 + 3 * 128)


def test_a_second_read_of_the_same_element_shows():
    @triton.jit
    def softmax_two_passes(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
        column = tl.arange(0, BLOCK)
        m = tl.max(tl.load(x_ptr + column, mask=column < columns, other=-float("inf")), axis=0)
        e = tl.exp(tl.load(x_ptr + column, mask=column < columns, other=-float("inf")) - m)
        tl.store(out_ptr + column, e / tl.sum(e, axis=0), mask=column < columns)

    x = torch.randn(100)
    out = torch.empty(100)
    found = launch(softmax_two_passes, (1,), x, out, 100, BLOCK=128)
    torch.testing.assert_close(out, x.softmax(0))
    assert found.array("x_ptr").read_bytes == 2 * found.array("x_ptr").distinct_read_bytes == 800


def test_a_tiled_product_reads_each_operand_once_for_each_tile_of_the_other():
    a, b, bias = torch.randn(70, 50), torch.randn(50, 90), torch.randn(90)
    c = torch.empty(70, 90)
    found = launch(kernels.linear_relu, (3, 3), a, b, bias, c, 70, 90, 50, BM=32, BN=32, BK=16)
    torch.testing.assert_close(c, (a @ b + bias).relu(), atol=1e-5, rtol=1e-5)
    assert found.array("a_ptr").read_bytes == 3 * a.nbytes
    assert found.array("b_ptr").read_bytes == 3 * b.nbytes
    assert found.array("c_ptr").written_bytes == found.array("c_ptr").distinct_written_bytes == c.nbytes
    assert found.array("c_ptr").read_bytes == 0
    dots = next(line for line in found.lines if "tl.dot" in line.line.text)
    # Two flops a product and sum, for the whole tiles; the augmented assignment adds the tile once more.
    assert dots.flops == 9 * 4 * (2 * 32 * 32 * 16 + 32 * 32)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 16), (2, 32), (4, 64), (8, 128), (16, 128)])
def test_sectors_of_a_load_grow_with_the_stride(stride, sectors):
    @triton.jit
    def strided(x_ptr, out_ptr, STRIDE: tl.constexpr):
        lane = tl.arange(0, 128)
        tl.store(out_ptr + lane, tl.load(x_ptr + lane * STRIDE))

    x, out = aligned(128 * stride), aligned(128)
    found = launch(strided, (1,), x, out, STRIDE=stride)
    assert torch.equal(out, x[::stride])
    assert found.total("read_sectors") == sectors
    assert found.total("written_sectors") == 16


def aligned(n: int) -> torch.Tensor:
    """n random floats at an address that is a multiple of 256."""
    room = torch.randn(n + 64)
    skip = -room.data_ptr() % 256 // 4
    return room[skip : skip + n]


def test_a_view_that_begins_inside_a_sector_touches_one_more():
    found = launch(kernels.copy, (1,), aligned(33)[1:], aligned(32), 32, BLOCK=32)
    assert (found.total("read_sectors"), found.total("written_sectors")) == (5, 4)


def test_a_strided_view_is_read_where_its_elements_are():
    x = torch.randn(6, 8).t()
    out = torch.empty(8)

    @triton.jit
    def column(x_ptr, out_ptr, stride):
        i = tl.arange(0, 8)
        tl.store(out_ptr + i, tl.load(x_ptr + i * stride))

    launch(column, (1,), x[:, 2], out, x.stride(0))
    assert torch.equal(out, x[:, 2])


def test_atomics_add_up_and_are_counted():
    x, out = torch.ones(1000), torch.zeros(1)
    found = launch(kernels.total, (4,), x, out, 1000, BLOCK=256)
    assert out.item() == 1000
    assert found.total("atomics") == 4
    assert found.array("out_ptr").written_bytes == 16 and found.array("out_ptr").distinct_written_bytes == 4


def test_a_program_knows_its_place_in_three_dimensions():
    @triton.jit
    def places(out_ptr):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        number = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
        tl.store(out_ptr + number, 100 * z + 10 * y + x)

    out = torch.zeros(24, dtype=torch.int32)
    launch(places, (2, 3, 4), out)
    assert out.tolist() == [100 * z + 10 * y + x for z in range(4) for y in range(3) for x in range(2)]


def test_a_grid_may_be_a_function_of_the_arguments():
    out = torch.empty(100)
    found = launch(
        kernels.copy, lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),), torch.ones(100), out, 100, BLOCK=32
    )
    assert found.grid == (4, 1, 1) and out.eq(1).all()


def test_device_functions_and_library_functions_run():
    @triton.jit
    def twice(x):
        return 2 * x

    @triton.jit
    def apply(x_ptr, out_ptr):
        i = tl.arange(0, 16)
        x = tl.load(x_ptr + i)
        tl.store(out_ptr + i, tl.where(x > 0, twice(x), tl.sigmoid(x)))
        tl.store(out_ptr + 16 + i, tl.cumsum(x, axis=0))
        tl.store(out_ptr + 32, max(x.sum(axis=0), 0.0))
        tl.store(out_ptr + 33, tl.argmax(x, axis=0).to(tl.float32))

    x, out = torch.randn(16), torch.zeros(34)
    apply[(1,)](x, out)
    torch.testing.assert_close(out[:16], torch.where(x > 0, 2 * x, x.sigmoid()))
    torch.testing.assert_close(out[16:32], x.cumsum(0))
    torch.testing.assert_close(out[32], x.sum().clamp(min=0))
    assert out[33] == x.argmax()


def test_what_crosses_to_the_referee_is_the_same_again():
    with observe() as seen:
        kernels.softmax[(2,)](torch.randn(2, 8), torch.empty(2, 8), 8, 8, BLOCK=8)
    assert Observation.from_dict(seen.to_dict()).launches == seen.launches


def test_the_same_launch_gives_the_same_record():
    x, out = torch.randn(3, 8), torch.empty(3, 8)
    first, second = (launch(kernels.softmax, (3,), x, out, 8, 8, BLOCK=8) for _ in range(2))
    assert first.lines == second.lines and first.arrays == second.arrays


def test_an_array_that_was_not_given_is_an_error():
    found = launch(kernels.copy, (1,), torch.ones(4), torch.empty(4), 4, BLOCK=4)
    with pytest.raises(KeyError, match="no array 'y_ptr'"):
        found.array("y_ptr")


def test_triton_itself_is_left_as_it_was():
    before = (tl.load, tl.reduce, tl.tensor.__add__, tl.tensor.__dict__.get("__bool__"))
    kernels.copy[(1,)](torch.ones(4), torch.empty(4), 4, BLOCK=4)
    assert (tl.load, tl.reduce, tl.tensor.__add__, tl.tensor.__dict__.get("__bool__")) == before


def test_a_launch_adds_nothing_to_the_names_of_the_learners_file():
    before = set(vars(kernels))
    kernels.copy[(1,)](torch.ones(4), torch.empty(4), 4, BLOCK=4)
    assert set(vars(kernels)) == before


def test_the_table_says_how_often_each_array_is_read_and_written():
    a, b, bias = torch.randn(64, 32), torch.randn(32, 64), torch.zeros(64)
    with observe() as seen:
        c = torch.empty(64, 64)
        kernels.linear_relu[(2, 2)](a, b, bias, c, 64, 64, 32, BM=32, BN=32, BK=16)
    table = seen.table()
    assert "a_ptr of 8.0 KiB: all of it read 2 times" in table
    assert "c_ptr of 16.0 KiB: all of it written once" in table
    assert "acc += tl.dot(a, b)" in table


def test_a_masked_lane_touches_no_sector():
    found = launch(kernels.copy, (1,), aligned(8), aligned(8), 8, BLOCK=1024)
    assert (found.total("read_sectors"), found.total("written_sectors")) == (1, 1)


def test_the_table_says_programs_and_their_warps():
    x = torch.ones(64)
    with observe() as seen:
        kernels.copy[(4,)](x, torch.zeros(64), 64, BLOCK=16, num_warps=2)
        kernels.copy[(1,)](x, torch.zeros(64), 64, BLOCK=64)
    assert [launch.num_warps for launch in seen.launches] == [2, 4]
    assert "copy[4], 4 programs of 2 warps: " in seen.table() and "copy[1], 1 program of 4 warps: " in seen.table()
