"""What ``Tensor.view`` itself says of a size, a stride and a new size."""

import torch


def strided(size: list[int], stride: list[int]) -> torch.Tensor:
    """A tensor with that layout and no memory."""
    return torch.empty_strided(size, stride, device="meta")


def is_contiguous(size: list[int], stride: list[int]) -> bool:
    return strided(size, stride).is_contiguous()


def view_stride(size: list[int], stride: list[int], new_size: list[int]) -> list[int] | None:
    """The strides of the view, None when there is none."""
    try:
        return list(strided(size, stride).view(new_size).stride())
    except RuntimeError:
        return None
