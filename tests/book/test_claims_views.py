"""Tests that settle the claims of the chapter "Tensors are views", one per claim."""

import itertools

import pytest
import torch

import gpulab


def address(index, x):
    return x.storage_offset() + sum(i * s for i, s in zip(index, x.stride(), strict=True))


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(24).view(2, 3, 4).permute(2, 0, 1),
        torch.arange(24).view(4, 6)[1:, ::2],
        torch.arange(3).view(3, 1).expand(3, 5),
        torch.arange(96).view(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.arange(9).unfold(0, 4, 2),
    ],
    ids=["permuted", "sliced", "expanded", "channels_last", "overlapping"],
)
def test_a_stride_counts_storage_elements_for_one_step_along_a_dimension(x):
    storage = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage())
    for index in itertools.product(*map(range, x.shape)):
        at = address(index, x)
        assert storage[at] == x[index]
        assert x[index].data_ptr() == storage.data_ptr() + at * x.element_size()


def test_transpose_swaps_strides_over_the_same_storage():
    t = torch.tensor([[1, 2, 3], [4, 5, 6]])
    assert (t.stride(), t.t().stride()) == ((3, 1), (1, 3))
    assert (t.shape, t.t().shape) == ((2, 3), (3, 2))
    assert t.data_ptr() == t.t().data_ptr() and gpulab.shares_storage(t, t.t())
    assert t.untyped_storage().nbytes() == t.numel() * t.element_size()


def test_view_needs_compatible_strides_not_contiguity():
    t, x = torch.arange(6).view(2, 3), torch.arange(24).view(2, 3, 4)
    for view, size in ((t.t(), (3, 1, 2)), (x[:, :, ::2], (6, 2))):
        assert not view.is_contiguous()
        assert gpulab.shares_storage(view.view(size), view)
    with pytest.raises(RuntimeError, match="size is not compatible with input tensor's size and stride"):
        t.t().view(-1)


def test_contiguous_returns_a_contiguous_tensor_itself():
    base = torch.zeros(1000, 1024)
    row = base[3:4]
    assert row.is_contiguous() and row.contiguous() is row
    assert row.contiguous().untyped_storage().nbytes() == base.numel() * 4
    assert row.clone().untyped_storage().nbytes() == 1024 * 4
    column = base[:, 3:4].expand(1000, 2)
    assert not gpulab.shares_storage(column.contiguous(), base)


def test_reshape_copies_only_where_view_raises():
    x = torch.arange(24).view(2, 3, 4)
    stepped = x[:, :, ::2]
    assert not stepped.is_contiguous()
    assert gpulab.shares_storage(stepped.reshape(6, 2), x)
    with pytest.raises(RuntimeError):
        x.permute(2, 0, 1).view(-1)
    assert not gpulab.shares_storage(x.permute(2, 0, 1).reshape(-1), x)


def test_permute_and_view_copy_nothing_and_reshape_clones_once():
    images = torch.rand(4, 3, 64, 64)
    with gpulab.observe() as seen:
        images.permute(0, 2, 3, 1).view(4, 64 * 64 // 2, 2, 3)
    assert (seen.copies, seen.new_bytes) == ((), 0)
    with pytest.raises(RuntimeError):
        images.permute(0, 2, 3, 1).view(4, -1)
    with gpulab.observe() as seen:
        images.permute(0, 2, 3, 1).reshape(4, -1)
    assert [copy.op for copy in seen.copies] == ["aten.clone"]
    assert seen.new_bytes == images.numel() * images.element_size()


def test_channels_last_is_not_contiguous_and_needs_no_copy():
    frames = torch.rand(4, 64, 64, 3)
    with gpulab.observe() as seen:
        images = frames.permute(0, 3, 1, 2)
        same = images.contiguous(memory_format=torch.channels_last)
    assert not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
    assert same is images and seen.new_bytes == 0


def test_negative_strides_do_not_exist():
    with pytest.raises(RuntimeError, match="Negative strides are not supported"):
        torch.arange(4).as_strided((4,), (-1,), 3)
    with pytest.raises(ValueError, match="step must be greater than zero"):
        torch.arange(4)[::-1]
