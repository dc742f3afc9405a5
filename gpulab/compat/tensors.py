"""Tensors and storages as objects: their C++ bases, how one is made of another, printed, faked or traded."""

import torch
from torch._C import StorageBase as StorageBase
from torch._C import TensorBase as TensorBase
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode

from gpulab.compat.places import Place

make_subclass = TensorBase._make_subclass
"""``(cls, data, requires_grad)``: the same storage as a ``cls``."""
MAKE_SUBCLASS = Place(torch.Tensor, "_make_subclass")
"""Where a program's own subclasses find it."""
MAKE_WRAPPER_SUBCLASS = Place(torch.Tensor, "_make_wrapper_subclass")
"""``(cls, size, ...)``: a ``cls`` without memory of its own, as tensors that are made of others are."""
WRAPPER_ARGUMENTS = (
    "size", "strides", "storage_offset", "memory_format", "dtype", "layout", "device", "pin_memory", "requires_grad",
    "dispatch_sizes_strides_policy", "dispatch_device", "dispatch_layout", "_extra_dispatch_keys", "storage_size",
)  # fmt: skip
"""The names of its arguments, behind the class."""
swap_implementations = torch._C._swap_tensor_impl
"""Two tensors trade their C++ parts; classes and attributes stay."""
printed = torch._tensor_str._str
"""What ``repr`` prints of a tensor."""
APPLY_CODE = torch.nn.Module._apply.__code__
"""Of the frame in which a module converts its parameters and their gradients."""

WRITE_FILE = Place(torch.UntypedStorage, "_write_file")
SHARING = ("share_memory_", "_share_fd_cpu_", "_share_filename_cpu_", "_share_cuda_")
"""Methods of ``torch.UntypedStorage`` that hand its bytes to another process."""
TO_DLPACK = (Place(torch._C, "_to_dlpack"), Place(torch.utils.dlpack, "to_dlpack"), Place(torch, "to_dlpack"))
"""As far as this PyTorch has them."""


def untyped(storage) -> torch.UntypedStorage:
    """The bytes of a storage, typed or not."""
    return getattr(storage, "_untyped_storage", storage)
