"""A lane outside its array is found, and touches nothing."""

import pytest
import torch

from gpulab import observe
from gpulab.kernels import tl, triton
from gpulab.kernels.errors import MemoryFault
from tests.kernels.tiles import kernels


def test_an_unmasked_tail_is_a_fault_with_program_and_index():
    x, out = torch.randn(20), torch.empty(20)
    with observe() as seen:
        kernels.copy_unmasked[(3,)](x, out, BLOCK=8)
    reading, writing = seen.launches[0].faults
    assert (reading.kind, reading.array, reading.index, reading.thread) == ("out of bounds", "x_ptr", (20,), (2, 0, 0))
    assert (writing.array, writing.index, writing.count) == ("out_ptr", (20,), 4)
    assert reading.line.text == "values = tl.load(x_ptr + offsets)"
    assert torch.equal(out, x)


def test_outside_observe_it_is_an_error_that_names_them():
    with pytest.raises(
        MemoryFault, match=r"program \(2, 0, 0\) uses element 20 of x_ptr.*4 lanes.*(?s:.)*tl.load"
    ) as caught:
        kernels.copy_unmasked[(3,)](torch.randn(20), torch.empty(20), BLOCK=8)
    assert caught.value.fault.index == (20,)


def test_nothing_outside_is_written():
    room = torch.zeros(32)
    with observe() as seen:
        kernels.copy_unmasked[(2,)](torch.ones(16), room[8:20], BLOCK=8)
    assert room[:8].eq(0).all() and room[8:20].eq(1).all() and room[20:].eq(0).all()
    assert [fault.array for fault in seen.launches[0].faults] == ["out_ptr"]


def test_what_is_loaded_from_outside_is_no_number():
    out = torch.zeros(8)
    with observe():
        kernels.copy_unmasked[(1,)](torch.ones(5), out, BLOCK=8)
    assert out[:5].eq(1).all() and out[5:].isnan().all()


def test_a_pointer_that_runs_into_the_next_array_is_outside_its_own():
    both = torch.arange(16, dtype=torch.float32)
    out = torch.zeros(16)

    @triton.jit
    def first_of_two(x_ptr, y_ptr, out_ptr):
        i = tl.arange(0, 16)
        tl.store(out_ptr + i, tl.load(x_ptr + i))

    with observe() as seen:
        first_of_two[(1,)](both[:8], both[8:], out)
    (fault,) = seen.launches[0].faults
    assert (fault.array, fault.index, fault.count) == ("x_ptr", (8,), 8)


def test_an_index_before_the_array_is_a_fault():
    @triton.jit
    def shifted(x_ptr, out_ptr):
        i = tl.arange(0, 8)
        tl.store(out_ptr + i, tl.load(x_ptr + i - 3))

    with observe() as seen:
        shifted[(1,)](torch.ones(8), torch.zeros(8))
    (fault,) = seen.launches[0].faults
    assert (fault.index, fault.count) == ((-3,), 3)


def test_a_masked_lane_may_point_anywhere():
    with observe() as seen:
        kernels.copy[(1,)](torch.ones(5), torch.zeros(5), 5, BLOCK=1024)
    assert seen.launches[0].faults == ()


def test_an_atomic_outside_changes_nothing_and_is_a_fault():
    @triton.jit
    def count(out_ptr):
        tl.atomic_add(out_ptr + tl.arange(0, 8), 1.0)

    room = torch.zeros(8)
    with observe() as seen:
        count[(1,)](room[:6])
    assert room.tolist() == [1.0] * 6 + [0.0] * 2
    assert seen.launches[0].faults[0].count == 2


def test_an_empty_array_has_no_element():
    with observe() as seen:
        kernels.copy_unmasked[(1,)](torch.empty(0), torch.empty(0), BLOCK=8)
    assert [fault.count for fault in seen.launches[0].faults] == [8, 8]


def test_a_pointer_cast_to_a_wider_type_must_be_aligned():
    @triton.jit
    def pairs(x_ptr, out_ptr):
        wide = (x_ptr + 1).to(tl.pointer_type(tl.int64))
        tl.store(out_ptr, tl.load(wide))

    with observe() as seen:
        pairs[(1,)](torch.zeros(8, dtype=torch.int32), torch.zeros(1, dtype=torch.int64))
    assert seen.launches[0].faults[0].kind == "misaligned address"


def test_a_pointer_made_of_a_number_is_refused():
    @triton.jit
    def wild(out_ptr, address):
        tl.store(out_ptr, tl.load(address.to(tl.pointer_type(tl.float32))))

    with pytest.raises(ValueError, match="not made from an argument"):
        wild[(1,)](torch.zeros(1), 2**40)


def test_a_device_assertion_names_program_and_line():
    from gpulab.kernels.tiles import DeviceAssertion

    @triton.jit
    def positive(x_ptr):
        x = tl.load(x_ptr + tl.program_id(0))
        tl.device_assert(x > 0, "x is not positive")

    positive[(2,)](torch.ones(2))
    with pytest.raises(DeviceAssertion, match=r"program \(1, 0, 0\): x is not positive(?s:.)*tl.device_assert"):
        positive[(2,)](torch.tensor([1.0, -1.0]))
