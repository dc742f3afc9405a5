"""What Triton's own interpreter computes wrongly, or takes no argument of, is right here or refused."""

import collections

import pytest
import torch

from gpulab.kernels import tl, triton
from gpulab.kernels.errors import CompileError, EndlessLoop

NAN = float("nan")


@triton.jit
def largest_of_two(x_ptr, y_ptr, out_ptr):
    i = tl.arange(0, 4)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(out_ptr + i, tl.maximum(x, y))
    tl.store(out_ptr + 4 + i, tl.minimum(x, y))
    tl.store(out_ptr + 8 + i, tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out_ptr + 12 + i, tl.clamp(x, 0.0, 1.0))
    tl.store(out_ptr + 16 + i, tl.clamp(x, 0.0, 1.0, propagate_nan=tl.PropagateNan.ALL))


def test_a_maximum_takes_the_number_unless_it_is_told_to_propagate_nan():
    x, y, out = torch.tensor([NAN, 1.0, NAN, 2.0]), torch.tensor([1.0, NAN, NAN, 3.0]), torch.zeros(5, 4)
    largest_of_two[(1,)](x, y, out)
    expected = torch.tensor([[1, 1, NAN, 3], [1, 1, NAN, 2], [NAN, NAN, NAN, 3], [0, 1, 0, 1], [NAN, 1, NAN, 1]])
    torch.testing.assert_close(out, expected, equal_nan=True)


@triton.jit
def where_is_the_largest(x_ptr, out_ptr):
    tl.store(out_ptr, tl.argmax(tl.load(x_ptr + tl.arange(0, 4)), axis=0))


def test_argmax_of_nan_has_no_answer():
    out = torch.zeros(1, dtype=torch.int32)
    where_is_the_largest[(1,)](torch.tensor([1.0, 3.0, 3.0, 2.0]), out)
    assert out.item() == 1
    with pytest.raises(CompileError, match="depends on the order of its comparisons(?s:.)*tl.argmax"):
        where_is_the_largest[(1,)](torch.tensor([1.0, NAN, 3.0, 2.0]), out)


@triton.jit
def shifts(x_ptr, by_ptr, out_ptr):
    i = tl.arange(0, 4)
    x, by = tl.load(x_ptr + i), tl.load(by_ptr + i)
    tl.store(out_ptr + i, x >> by)
    tl.store(out_ptr + 4 + i, x << by)
    tl.store(out_ptr + 8 + i, x)
    tl.store(out_ptr + 12 + i, x >> 1)


@pytest.mark.parametrize(
    "kind", [torch.int32, torch.int64, torch.uint32, torch.uint64, torch.int8, torch.uint8], ids=str
)
def test_shifts_keep_the_left_sides_type_and_value(kind):
    numbers = [5, 100, 7, 2] if not kind.is_signed else [-5, 100, -7, 2]
    x, by, out = (
        torch.tensor(numbers, dtype=kind),
        torch.tensor([1, 2, 0, 1], dtype=torch.int32),
        torch.zeros(16, dtype=kind),
    )
    shifts[(1,)](x, by.to(kind), out)
    wrapped = [((v << b) & 0xFF) for v, b in zip(numbers, [1, 2, 0, 1])] if kind == torch.uint8 else None
    lefts = wrapped or torch.tensor([v << b for v, b in zip(numbers, [1, 2, 0, 1])]).to(torch.int64).to(kind).tolist()
    assert out.tolist() == [v >> b for v, b in zip(numbers, [1, 2, 0, 1])] + lefts + numbers + [v >> 1 for v in numbers]


def test_a_shift_of_uint64_by_an_int_stays_whole():
    @triton.jit
    def upper(x_ptr, out_ptr, by):
        x = tl.load(x_ptr + tl.arange(0, 2))
        tl.store(out_ptr + tl.arange(0, 2), x >> by.to(tl.uint64))

    out = torch.zeros(2, dtype=torch.uint64)
    upper[(1,)](torch.tensor([2**63 + 1, 2**64 - 1], dtype=torch.uint64), out, 60)
    assert out.tolist() == [8, 15]


def test_the_upper_half_of_a_product_is_unsigned():
    @triton.jit
    def high(x_ptr, out_ptr):
        i = tl.arange(0, 2)
        x = tl.load(x_ptr + i)
        tl.store(out_ptr + i, tl.umulhi(x, x))

    for kind, bits in ((torch.int32, 32), (torch.int64, 64)):
        out = torch.zeros(2, dtype=kind)
        high[(1,)](torch.tensor([-1, 2 ** (bits // 2)], dtype=kind), out)
        assert out.tolist() == [-2, 1]


def test_a_histogram_counts_beyond_127_and_leaves_out_what_has_no_bin():
    @triton.jit
    def bins(x_ptr, out_ptr):
        tl.store(out_ptr + tl.arange(0, 4), tl.histogram(tl.load(x_ptr + tl.arange(0, 512)).to(tl.int32), 4))

    x, out = torch.tensor([0, 1, 3, 4] * 128, dtype=torch.int8), torch.zeros(4, dtype=torch.int32)
    bins[(1,)](x, out)
    assert out.tolist() == [128, 128, 0, 128]


def test_rounding_towards_zero_is_towards_zero():
    @triton.jit
    def narrowed(x_ptr, half_ptr, brain_ptr):
        i = tl.arange(0, 64)
        x = tl.load(x_ptr + i)
        tl.store(half_ptr + i, x.to(tl.float16, fp_downcast_rounding="rtz"))
        tl.store(brain_ptr + i, x.to(tl.bfloat16, fp_downcast_rounding="rtz"))

    x, half, brain = 100 * torch.randn(64), torch.zeros(64).half(), torch.zeros(64).bfloat16()
    x[0] = 1e6
    narrowed[(1,)](x, half, brain)
    for narrow in (half, brain):
        assert (narrow.float().abs() <= x.abs()).all() and narrow.isfinite().all()
        assert ((narrow.float() - x).abs() <= x.abs() * torch.finfo(narrow.dtype).eps)[1:].all()


@triton.jit
def prints_a_value(x_ptr):
    print(tl.load(x_ptr))


@triton.jit
def prints_a_text(x_ptr):
    print("x", tl.load(x_ptr))


def test_print_takes_a_text_first(capsys):
    with pytest.raises(CompileError, match="take a text first"):
        prints_a_value[(1,)](torch.ones(1))
    prints_a_text[(1,)](torch.ones(1))
    assert capsys.readouterr().out.split() == ["(0,", "0,", "0)", "x:", "[1.]"]


RankSockets = collections.namedtuple("RankSockets", ["x", "out", "n"])


@triton.jit
def by_name(ends, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(ends.out + i, tl.load(ends.x + i, mask=i < ends.n), mask=i < ends.n)


def test_a_namedtuple_is_an_argument():
    out = torch.zeros(8)
    by_name[(1,)](RankSockets(torch.ones(8), out, 5), BLOCK=8)
    assert out.tolist() == [1.0] * 5 + [0.0] * 3


@triton.constexpr_function
def half_of(n):
    return n // 2


@triton.jit
def fills_half(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, half_of(BLOCK)), 1.0)


def test_a_constexpr_function_is_evaluated_before_the_kernel_runs():
    out = torch.zeros(8)
    fills_half[(1,)](out, BLOCK=8)
    assert out.tolist() == [1.0] * 4 + [0.0] * 4


@triton.jit
def widened(x_ptr, out_ptr):
    i = tl.arange(0, 8)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(tl.float32))


def test_a_tensor_may_be_reinterpreted_at_its_own_width():
    x, out = torch.randn(8).half(), torch.zeros(8)
    widened[(1,)](triton.reinterpret(x.view(torch.int16), tl.float16), out)
    assert torch.equal(out, x.float())
    for kind in (tl.float8e4nv, tl.float32):
        with pytest.raises(TypeError, match="not modelled"):
            widened[(1,)](triton.reinterpret(x.view(torch.int8), kind), out)


def test_float8_inside_a_kernel_is_refused():
    @triton.jit
    def narrowed(x_ptr):
        x = tl.load(x_ptr)
        tl.store(x_ptr, x.to(tl.float8e5).to(tl.float32))

    with pytest.raises(CompileError, match="float8 is not modelled"):
        narrowed[(1,)](torch.ones(1))


@triton.jit
def follows_addresses(table_ptr, out_ptr):
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr, tl.load(x_ptr))


@pytest.mark.parametrize("others", [0, 7, 40])
def test_an_address_loaded_from_memory_is_refused_however_many_arrays_there_are(others):
    x, out = torch.ones(4), torch.zeros(4)

    @triton.jit
    def with_others(table_ptr, out_ptr, rest):
        follows_addresses(table_ptr, out_ptr)

    with pytest.raises(
        ValueError, match="not made from an argument of the kernel: an address that was loaded from memory"
    ):
        with_others[(1,)](torch.tensor([x.data_ptr()]), out, tuple(torch.ones(1) for _ in range(others)))


@triton.jit
def waits_for_nobody(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


def test_a_wait_for_what_never_comes_ends(monkeypatch):
    monkeypatch.setattr("gpulab.kernels.tiles.interpret.MAX_TURNS", 100)
    with pytest.raises(EndlessLoop, match="waits for ever(?s:.)*while tl.atomic_add"):
        waits_for_nobody[(1,)](torch.zeros(1, dtype=torch.int32))


@pytest.mark.filterwarnings("error")
def test_the_largest_of_a_block_leaves_nan_out_unless_all_is_nan():
    @triton.jit
    def extremes(x_ptr, out_ptr):
        x = tl.load(x_ptr + tl.arange(0, 4))
        tl.store(out_ptr, tl.max(x, axis=0))
        tl.store(out_ptr + 1, tl.min(x, axis=0))

    out = torch.zeros(2)
    extremes[(1,)](torch.tensor([NAN, 3.0, 1.0, NAN]), out)
    assert out.tolist() == [3.0, 1.0]
    extremes[(1,)](torch.full((4,), NAN), out)
    assert out.isnan().all()
