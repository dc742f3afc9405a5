"""Frees the forks of a process from the garbage collector and collapses its memory into huge pages: each copies less.

Two things make a fork of a process with PyTorch dear. A garbage collection in the child writes to every object that it
looks at, and a write copies a page. And a fork copies the page table, eight bytes for each page of 4 KiB: in huge pages of
2 MiB there is one entry where there were 512. Linux gathers pages into huge ones on request (madvise, MADV_COLLAPSE, from
6.1 on); elsewhere they stay as they are.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

_HUGE_PAGE_BYTES = 2 << 20
_MADV_COLLAPSE = 25
_LARGEST = 1 << 34
"""Bytes. A larger mapping is address space that someone reserved, and holds next to nothing."""


def share_before_forking() -> None:
    """All objects that there are leave the garbage collector's sight for good; their pages become huge ones."""
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        _gather_pages()


def _gather_pages() -> None:
    """Where the system refuses, for it is older or the pages are not there, nothing is lost."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in _own_memory():
        for at in range(-(-begin // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES, end - _HUGE_PAGE_BYTES + 1, _HUGE_PAGE_BYTES):
            madvise(at, _HUGE_PAGE_BYTES, _MADV_COLLAPSE)


def _own_memory() -> Iterator[tuple[int, int]]:
    """Begin and end of each mapping that is writable, private and of no file: the heap, and what Python and malloc took beside it."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, inode, *name = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        if (
            access == "rw-p"
            and inode == "0"
            and (not name or name[0].startswith(("[heap", "[anon")))
            and end - begin <= _LARGEST
        ):
            yield begin, end
