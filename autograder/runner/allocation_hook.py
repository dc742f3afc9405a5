"""A hook on the allocation of objects of a class written in C, below Python.

A profiler sees calls made by Python code, and ``map(numpy.ndarray, ...)`` makes none. Every object is allocated by
the ``tp_alloc`` of its class, whoever asks for it, so that slot is replaced.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TP_ALLOC = 304
"""Bytes from a class to that slot, on 64-bit machines, CPython 3.11 to 3.14; checked at each use."""
_Allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t)
_GENERIC = ctypes.cast(ctypes.pythonapi.PyType_GenericAlloc, ctypes.c_void_p).value
_allocate = _Allocate(_GENERIC)


@contextmanager
def on_allocation(kind: type, callback: Callable[[], object]) -> Iterator[None]:
    """Call ``callback`` for every object of ``kind``, or of a subclass, that is allocated inside the block.

    Also for a subclass made inside the block. Raises RuntimeError where a class does not use Python's generic
    allocator: its objects would not be seen.
    """

    def allocate(cls: int, items: int) -> int:
        callback()
        return _allocate(cls, items)

    watched = _Allocate(allocate)
    address = ctypes.cast(watched, ctypes.c_void_p).value
    family = _family(kind)
    for member in family:
        _put(member, _GENERIC, address)
    try:
        yield
    finally:
        if not all([_put(member, address, _GENERIC, strictly=False) for member in family]) or _family(kind) != family:
            callback()


def _put(kind: type, expected: int, address: int, strictly: bool = True) -> bool:
    """Replace the slot; returns whether it held ``expected``."""
    slot = ctypes.c_void_p.from_address(id(kind) + _TP_ALLOC)
    as_expected = slot.value == expected
    if strictly and not as_expected:
        raise RuntimeError(f"{kind.__name__} is not allocated as Python's own objects are")
    slot.value = address
    return as_expected


def _family(kind: type) -> set[type]:
    members = {kind}
    for derived in type.__subclasses__(kind):
        members |= _family(derived)
    return members
