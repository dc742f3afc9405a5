"""Whether objects of a class written in C come about, seen below Python.

A profiler sees calls that Python code makes; those of ``map(numpy.ndarray, ...)`` are none. Every
object is allocated by its class's ``tp_alloc``, whoever asks for it, so that is what is watched.
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
def on_allocation(kind: type, tell: Callable[[], object]) -> Iterator[None]:
    """Call ``tell`` for every object of ``kind``, or of a class derived from it, that is made inside the block.

    For a class derived from it inside the block too. Raises RuntimeError where a class does not
    allocate as Python's own do: nothing would be seen.
    """

    def told(cls: int, items: int) -> int:
        tell()
        return _allocate(cls, items)

    watched = _Allocate(told)
    address = ctypes.cast(watched, ctypes.c_void_p).value
    family = _family(kind)
    for member in family:
        _put(member, _GENERIC, address)
    try:
        yield
    finally:
        if not all([_put(member, address, _GENERIC, strictly=False) for member in family]) or _family(kind) != family:
            tell()


def _put(kind: type, due: int, address: int, strictly: bool = True) -> bool:
    """Replace the slot; whether it was what was ``due``."""
    slot = ctypes.c_void_p.from_address(id(kind) + _TP_ALLOC)
    as_due = slot.value == due
    if strictly and not as_due:
        raise RuntimeError(f"{kind.__name__} is not allocated as Python's own objects are")
    slot.value = address
    return as_due


def _family(kind: type) -> set[type]:
    members = {kind}
    for derived in type.__subclasses__(kind):
        members |= _family(derived)
    return members
