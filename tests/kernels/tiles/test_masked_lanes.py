"""A lane that a mask kept a load from is undefined in Triton: who uses it is told, and nobody else."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from gpulab.kernels.errors import MemoryFault


@triton.jit
def added_up(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr, tl.sum(x, axis=0))


@triton.jit
def largest(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr, tl.max(x, axis=0))


@triton.jit
def stored_beyond(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x, mask=i <= n)


@triton.jit
def zero_times_it(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * 0.0)


@triton.jit
def multiplied(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i[:, None] * 16 + i[None, :], mask=i[None, :] < n)
    tl.store(out_ptr + i[:, None] * 16 + i[None, :], tl.dot(x, tl.trans(x)))


@triton.jit
def decides(x_ptr, out_ptr, n):
    x = tl.load(x_ptr + n, mask=n < 0)
    if x > 0:
        tl.store(out_ptr, 1.0)


@triton.jit
def addresses(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n).to(tl.int32)
    tl.store(out_ptr + x, 1.0)


@triton.jit
def carried_along(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.flip(tl.cumsum(x, axis=0), 0))


@triton.jit
def counted(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.atomic_add(out_ptr + i, x)


@triton.jit
def through_a_block_pointer(x_ptr, out_ptr, n):
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (16,), (0,))
    tl.store(out_ptr, tl.sum(tl.load(block, boundary_check=(0,)), axis=0))


USERS = (
    added_up,
    largest,
    stored_beyond,
    zero_times_it,
    multiplied,
    decides,
    addresses,
    carried_along,
    counted,
    through_a_block_pointer,
)


@pytest.mark.parametrize("kernel", USERS, ids=lambda k: k.__name__)
def test_who_uses_it_is_told_which_load_lacks_a_value(kernel):
    with observe() as seen:
        kernel[(1,)](torch.ones(256), torch.zeros(256), 10)
    (fault,) = seen.launches[0].faults
    assert (fault.kind, fault.array, fault.thread) == ("masked lane used", "x_ptr", (0, 0, 0))
    assert fault.index == (10,) and "tl.load(" in fault.line.text


def test_outside_observe_it_is_an_error_that_says_what_to_do():
    with pytest.raises(MemoryFault, match=r"undefined: give this load other=(?s:.)*x = tl.load"):
        added_up[(1,)](torch.ones(16), torch.zeros(1), 10)


def test_a_mask_that_switches_nothing_off_is_fine():
    out = torch.zeros(1)
    added_up[(1,)](torch.ones(16), out, 16)
    assert out.item() == 16


@triton.jit
def stored_under_the_mask(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.exp(x) * 2, mask=i < n)


@triton.jit
def replaced(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr, tl.sum(tl.where(i < n, x, 0.0), axis=0))


@triton.jit
def settled_by_the_mask(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    tl.store(out_ptr, tl.sum((mask & (x > 0)).to(tl.int32), axis=0))
    tl.store(out_ptr + 1, tl.sum((x > 0).to(tl.int32) * mask.to(tl.int32), axis=0))


@triton.jit
def scanned_before_it(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, tl.cumsum(x, axis=0), mask=i < n)


@triton.jit
def moved_about(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    square = tl.trans(tl.reshape(x, (4, 4)))
    left, right = tl.split(tl.join(x, x + 1))
    j = tl.arange(0, 4)
    at = j[None, :] * 4 + j[:, None]
    tl.store(out_ptr + at, square, mask=at < n)
    tl.store(out_ptr + 16 + i, left + right, mask=i < n)
    rows = tl.broadcast_to(x[:, None], (16, 4))
    tl.store(out_ptr + 32 + i[:, None] * 4 + j[None, :], rows, mask=i[:, None] < n)


@triton.jit
def never_used(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x - x, mask=i < 0)


@triton.jit
def rows_below_the_last(x_ptr, out_ptr, n):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    x = tl.load(x_ptr + at, mask=i[:, None] < n)
    tl.store(out_ptr + at, tl.dot(x, x * 0 + 1.0, out_dtype=tl.float32), mask=i[:, None] < 0)
    tl.store(out_ptr + i, tl.sum(x, axis=1), mask=i < n)


OTHERS = (
    stored_under_the_mask,
    replaced,
    settled_by_the_mask,
    scanned_before_it,
    moved_about,
    never_used,
    rows_below_the_last,
)


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda k: k.__name__)
def test_who_stores_only_what_was_loaded_is_told_nothing(kernel):
    with observe() as seen:
        kernel[(1,)](torch.ones(256), torch.zeros(256), 10)
    assert seen.launches[0].faults == ()


def test_what_was_loaded_from_memory_is_defined_whatever_was_stored_there_before():
    out = torch.full((16,), float("nan"))
    stored_under_the_mask[(1,)](out, out, 10)
    assert out.isnan().all()
