"""A launch's address space: every array a region of its own, nothing outside it reachable.

Arrays get invented addresses, far apart, so that a pointer that leaves one is known for what it
is even where the next array begins. They keep the alignment of the real ones.
"""

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

_REGION_BITS = 44
# True addresses of a process have 47 bits: none of them lies in a region.
_FIRST_REGION = 1 << (47 - _REGION_BITS)
_ALIGNMENT = 256


@dataclass(eq=False)
class Region:
    """One argument: ``array`` its parameter's name, ``real`` its first byte's true address.

    ``begin``: the invented one. ``nbytes``: to the end of its last element.
    """

    array: str
    real: int
    begin: int
    nbytes: int
    itemsize: int
    tensor: torch.Tensor

    @property
    def bytes(self) -> np.ndarray:
        """The array's memory itself, uint8."""
        return (
            np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(self.real))
            if self.nbytes
            else np.empty(0, np.uint8)
        )


@dataclass(frozen=True)
class Access:
    """One instruction's lanes that point into ``region``, all of its lanes' shape.

    ``offsets``: int64 bytes from its first. ``asked``: no mask switched the lane off.
    ``inside``: asked, and every byte lies in the region at an address the type may have.
    """

    region: Region
    offsets: np.ndarray
    asked: np.ndarray
    inside: np.ndarray
    itemsize: int

    @property
    def real(self) -> np.ndarray:
        """uint64 true addresses; meaningful where ``inside``."""
        return (self.offsets + self.region.real).astype(np.uint64)


class AddressSpace:
    """The arrays of one launch, by invented address."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}

    def add(self, array: str, tensor: torch.Tensor) -> Region:
        """A region for ``tensor``, from its first element to its last."""
        number, real = len(self.regions) + _FIRST_REGION, tensor.data_ptr()
        begin = (number << _REGION_BITS) + (1 << (_REGION_BITS - 1)) + real % _ALIGNMENT
        region = Region(array, real, begin, spanned_bytes(tensor), tensor.element_size(), tensor)
        self.regions[number] = region
        return region

    def accesses(self, addresses: np.ndarray, asked: np.ndarray, itemsize: int) -> Iterator[Access]:
        """One for each region that the lanes ``asked`` point into, or near.

        addresses: uint64; asked: bool, of the same shape. Raises ValueError for a pointer that was
        not made from an argument.
        """
        numbers = addresses >> np.uint64(_REGION_BITS)
        for number in _different(numbers[asked]):
            if number not in self.regions:
                raise ValueError(
                    "a pointer that was not made from an argument of the kernel: an address that was loaded from "
                    "memory, or a number. Give the kernel the tensor itself"
                )
            region = self.regions[number]
            here = asked & (numbers == number)
            offsets = addresses.astype(np.int64) - region.begin
            inside = here & (offsets >= 0) & (offsets <= region.nbytes - itemsize)
            yield Access(region, offsets, here, inside & (addresses % itemsize == 0), itemsize)

    def contents(self) -> dict[Region, np.ndarray]:
        """A copy of every array's bytes."""
        return {region: region.bytes.copy() for region in self.regions.values()}

    @contextmanager
    def holding(self, contents: dict[Region, np.ndarray]) -> Iterator[None]:
        """A block in which the arrays hold ``contents``; afterwards what they held before."""
        now = self.contents()
        _fill(contents)
        try:
            yield
        finally:
            _fill(now)

    def place(self, address: np.uint64) -> tuple[str, int]:
        """The array that an address points into or near, and the element; ("", 0) for none."""
        region = self.regions.get(int(address) >> _REGION_BITS)
        return ("", 0) if region is None else (region.array, (int(address) - region.begin) // region.itemsize)


def _fill(contents: dict[Region, np.ndarray]) -> None:
    for region, data in contents.items():
        region.bytes[:] = data


def _different(numbers: np.ndarray) -> list[int]:
    if not numbers.size:
        return []
    first = numbers.flat[0]
    return [int(first)] if (numbers == first).all() else [int(n) for n in np.unique(numbers)]


def spanned_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last; 0 for an empty one."""
    if not math.prod(tensor.shape):
        return 0
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()
