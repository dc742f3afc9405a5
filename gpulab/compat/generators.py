"""The device that PyTorch's C++ takes a generator to draw for: a field of ``c10::GeneratorImpl`` that has no setter."""

import ctypes
import functools

import torch

Generator = torch.Generator
_CPU, _CUDA, _NO_INDEX = 0, 1, 0xFF
_HEAD_BYTES = 160
"""The object's head: a table of functions, a count, a lock, keys, the device. Its numbers follow, two thousand bytes and more."""


def draws_for_cuda(generator: Generator) -> None:
    """From now on kernels of the host refuse ``generator``, in C++, as one of CUDA's. Where the field is not found nothing changes."""
    place = place_of_device()
    if place is not None:
        _head(generator)[place] = _CUDA


@functools.cache
def place_of_device() -> int | None:
    """Where in a generator the type of its device lies."""
    generator = Generator()
    head = _head(generator)
    for at in range(0, _HEAD_BYTES, 2):
        if head[at] == _CPU and head[at + 1] == _NO_INDEX:
            head[at] = _CUDA
            found = Generator.device.__get__(generator).type == "cuda"
            head[at] = _CPU
            if found:
                return at
    return None


def _head(generator: Generator):
    return (ctypes.c_uint8 * _HEAD_BYTES).from_address(generator._cdata)
