"""The second answer is the first: shape, strides, dtype, and what lies in whose memory."""

import pytest
import torch

import gpulab.cuda
from gpulab.cuda.device import shape_cache


@pytest.fixture(autouse=True)
def ghost():
    shape_cache._answers.clear()
    with gpulab.cuda.use("ghost:H100", quiet=True):
        yield


def x(*size, **options):
    return torch.empty(*(size or (4, 6)), device="cuda", **options)


OPERATIONS = {
    "elementwise": lambda: x() + 1,
    "broadcast": lambda: x(4, 1) * x(6),
    "kept strides": lambda: x(6, 4).t() * 2,
    "a product": lambda: x() @ x(6, 3),
    "several results": lambda: x().max(dim=1),
    "a list of results": lambda: x().split(2),
    "a view": lambda: x(8)[2:6].view(2, 2),
    "a view of a view": lambda: x().t()[1:, ::2],
    "in place": lambda: x().mul_(2),
    "into another": lambda: torch.add(x(), 1, out=x()),
    "a list in place": lambda: torch._foreach_mul_([x(), x(3)], 2.0),
    "another dtype": lambda: x().to(torch.bfloat16),
    "the bits as another dtype": lambda: x().view(torch.int32),
    "conjugated": lambda: x(dtype=torch.complex64).conj() + 1,
    "resized": lambda: x(2).resize_(8),
    "turned in place": lambda: x().t_(),
    "attention": lambda: torch.nn.functional.scaled_dot_product_attention(*[x(1, 2, 8, 16, dtype=torch.bfloat16)] * 3),
}


def described(out):
    if isinstance(out, torch.Tensor):
        return (
            out.shape,
            out.stride(),
            out.dtype,
            out.storage_offset(),
            out.untyped_storage().nbytes(),
            out.is_conj(),
            out.is_cuda,
        )
    return [described(item) for item in out] if isinstance(out, (list, tuple)) else out


@pytest.mark.parametrize("make", OPERATIONS.values(), ids=OPERATIONS)
def test_what_is_answered_from_memory_is_what_pytorch_answered(make, monkeypatch):
    first = described(make())
    assert described(make()) == first
    monkeypatch.setattr("gpulab.cuda.device.ghosts.answered", lambda cls, func, args, kwargs, ask: ask())
    assert described(make()) == first


def test_an_answer_is_given_without_asking(monkeypatch):
    y = x()
    y + 1
    monkeypatch.setattr("gpulab.cuda.device.ghosts._asked", lambda *_: pytest.fail("asked again"))
    assert (y + 1).shape == (4, 6) and (x() + 1).shape == (4, 6)


def test_a_result_has_memory_of_its_own_and_a_view_its_arguments():
    y = x()
    for _ in range(2):
        before = torch.cuda.memory_allocated()
        kept = y + 1
        assert torch.cuda.memory_allocated() == before + 512
        assert y.t().untyped_storage()._cdata == y.untyped_storage()._cdata != kept.untyped_storage()._cdata
        del kept


def test_what_is_written_in_place_comes_back_itself():
    y = x()
    assert y.add_(1) is y and y.add_(1) is y


@pytest.mark.parametrize("other", [1, 1.0, True])
def test_numbers_that_are_equal_and_of_other_types_are_other_questions(other):
    for _ in range(2):
        assert (x(dtype=torch.bool) + other).dtype == torch.result_type(torch.empty(1, dtype=torch.bool), other)


def shape_after(method, *arguments):
    """Of a 4 x 6 tensor that is changed in place."""
    y = x()
    getattr(y, method)(*arguments)
    return tuple(y.shape), y.untyped_storage().nbytes()


@pytest.mark.parametrize(
    ("method", "arguments", "shape"),
    [
        ("resize_", (9, 9), (9, 9)),
        ("resize_", (2,), (2,)),
        ("t_", (), (6, 4)),
        ("unsqueeze_", (0,), (1, 4, 6)),
        ("squeeze_", (), (4, 6)),
    ],
)
def test_a_shape_changed_in_place_is_changed_each_time(method, arguments, shape):
    for _ in range(3):
        assert shape_after(method, *arguments) == (shape, max(96, 4 * torch.Size(shape).numel()))


def test_a_tensor_set_to_anothers_memory_lies_in_it_each_time():
    for _ in range(3):
        y, other = x(), x(3)
        y.set_(other)
        assert y.untyped_storage()._cdata == other.untyped_storage()._cdata and y.shape == (3,)


def test_what_is_written_to_an_empty_tensor_gives_it_its_shape():
    for _ in range(3):
        y = x(0)
        torch.add(x(), 1, out=y)
        assert y.shape == (4, 6) and torch.cuda.memory_allocated() >= 2 * 96


def test_an_error_is_raised_again():
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broadcast"):
            x(3) + x(4)


def test_the_memory_of_answers_is_bounded(monkeypatch):
    monkeypatch.setattr(shape_cache, "LARGEST", 3)
    for size in range(1, 9):
        x(size) + 1
    assert len(shape_cache._answers) <= 3
