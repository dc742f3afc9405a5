"""The block itself: lines, nesting, exceptions, plain data, and an instrument that proves it lives."""

import threading

import pytest
import torch
from torch.utils._python_dispatch import _pop_mode

from gpulab import Observation, observe
from gpulab.observe import InstrumentError
from gpulab.observe.recorder import Recorder


def learners_function(x):
    return x.t().contiguous()  # here


def test_an_operation_names_the_line_that_caused_it():
    with observe() as seen:
        learners_function(torch.ones(2, 3))
    (copy,) = seen.copies
    assert copy.line.text == "return x.t().contiguous()  # here"
    assert copy.line.function == "learners_function"
    assert copy.line.number == learners_function.__code__.co_firstlineno + 1


def test_a_line_inside_a_library_is_charged_to_its_caller():
    layer = torch.nn.Linear(3, 2)
    with observe() as seen:
        layer(torch.ones(1, 3))
    assert {op.line.function for op in seen.ops} == {"test_a_line_inside_a_library_is_charged_to_its_caller"}


def test_operations_are_in_order():
    with observe() as seen:
        torch.ones(2, 3).t().mul(2)
    assert [op.op for op in seen.ops] == ["aten.ones", "aten.t", "aten.mul"]


def test_blocks_nest_and_each_sees_what_ran_inside_it():
    with observe() as outer:
        torch.ones(2).clone()
        with observe() as inner:
            torch.ones(3).clone()
    assert [copy.bytes for copy in inner.copies] == [12]
    assert [copy.bytes for copy in outer.copies] == [8, 12]


def test_a_block_that_raises_can_still_be_read():
    with pytest.raises(RuntimeError, match="view size"):
        with observe() as seen:
            torch.ones(2, 3).t().view(6)
    assert [op.op for op in seen.ops][:2] == ["aten.ones", "aten.t"]


def test_after_a_block_that_raises_nothing_is_recorded_any_more():
    with pytest.raises(KeyError):
        with observe() as seen:
            raise KeyError
    torch.ones(3)
    assert seen.ops == ()


@pytest.mark.parametrize("name", ["ops", "copies", "new_bytes", "peak_bytes"])
def test_reading_inside_the_block_is_an_error_that_says_when_to_read(name):
    with observe() as seen:
        with pytest.raises(RuntimeError, match="after the observe"):
            getattr(seen, name)
    getattr(seen, name)


def blind(self, func, types, args=(), kwargs=None):
    return func(*args, **(kwargs or {}))


def test_an_instrument_blinded_inside_the_block_is_an_error(monkeypatch):
    with pytest.raises(InstrumentError, match="fresh kernel"):
        with observe():
            monkeypatch.setattr(Recorder, "__torch_dispatch__", blind)


def test_an_instrument_blind_from_the_start_is_an_error(monkeypatch):
    monkeypatch.setattr(Recorder, "__torch_dispatch__", blind)
    with pytest.raises(InstrumentError, match="fresh kernel"):
        with observe():
            pytest.fail("the block ran unseen")


def test_an_instrument_taken_off_the_stack_is_an_error():
    with pytest.raises(RuntimeError):
        with observe():
            _pop_mode()
    assert torch.ones(2).sum() == 2


def test_an_empty_block_is_no_error_and_says_so():
    with observe() as seen:
        pass
    assert seen.ops == () and seen.table() == "No PyTorch operation ran inside the block."


def test_another_thread_is_not_seen():
    with observe() as seen:
        thread = threading.Thread(target=lambda: torch.ones(100).clone())
        thread.start()
        thread.join()
    assert seen.ops == ()


def test_plain_data_and_back():
    with observe() as seen:
        torch.ones(2, 3).t().contiguous()
    again = Observation.from_dict(seen.to_dict())
    assert (again.ops, again.copies, again.new_bytes, again.peak_bytes) == (
        seen.ops,
        seen.copies,
        seen.new_bytes,
        seen.peak_bytes,
    )
    assert again.table() == seen.table()


def test_origin_after_from_dict_is_an_error():
    with observe() as seen:
        x = torch.ones(2)
    with pytest.raises(RuntimeError, match="live tensors"):
        Observation.from_dict(seen.to_dict()).origin(x)


@pytest.mark.parametrize("data", [{}, {"ops": [{}], "copies": [], "new_bytes": 0, "peak_bytes": 0}])
def test_from_dict_of_something_else_is_an_error(data):
    with pytest.raises((KeyError, TypeError)):
        Observation.from_dict(data)


def test_the_table_shows_line_operation_kind_and_bytes():
    with observe() as seen:
        learners_function(torch.ones(2, 3))
    head, _, *rows = seen.table().splitlines()
    assert head == "3 operations, 1 copy of 24 B; 48 B new, 48 B at the peak"
    (row,) = [row for row in rows if "aten.clone" in row]
    (clone,) = [op for op in seen.ops if op.op == "aten.clone"]
    code = "return x.t().contiguous() # here".split()
    assert row.split() == [str(clone.line.number), *code, "aten.clone", "clone", "24", "B"]


def test_lines_that_begin_alike_are_told_apart_by_their_number():
    x = torch.ones(2, 3)
    with observe() as seen:
        x.reshape(3, 2).reshape(6).reshape(2, 3).reshape(6).reshape(2, 3).reshape(3, 2).reshape(6, 1).clone()
        x.reshape(3, 2).reshape(6).reshape(2, 3).reshape(6).reshape(2, 3).reshape(3, 2).reshape(6, 1).t().clone()
    rows = [line.split() for line in seen.table().splitlines() if "aten.clone" in line]
    assert int(rows[0][0]) + 1 == int(rows[1][0]) and rows[0][1] == rows[1][1]


def test_the_table_fits_80_columns():
    x = torch.ones(2, 3)
    with observe() as seen:
        for _ in range(12):
            x.reshape(3, 2).reshape(6).reshape(2, 3).reshape(6).reshape(2, 3).to(torch.float64).add_(1.0).t().clone()
    lines = seen.table().splitlines()
    assert max(map(len, lines)) <= 80 < len(seen.ops[0].line.text) and any("aten._to_copy" in line for line in lines)


def test_an_operation_has_the_dtype_of_its_result_and_else_of_its_argument():
    x = torch.ones(2)
    with observe() as seen:
        (x == 1).sum()
        x.bfloat16().float()
        x[0].item()
    dtypes = [(op.op, op.dtype) for op in seen.ops if op.op != "aten.select"]
    assert dtypes == [
        ("aten.eq", "bool"),
        ("aten.sum", "int64"),
        ("aten._to_copy", "bfloat16"),
        ("aten._to_copy", "float32"),
        ("aten._local_scalar_dense", "float32"),
    ]
    assert Observation.from_dict(seen.to_dict()).ops == seen.ops
