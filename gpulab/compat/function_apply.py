"""``torch.autograd.Function.apply``, and the frame by which a Function that runs is found.

Up to PyTorch 2.13 it is written in Python, later in C++: then it leaves a frame only where a block asks for one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.autograd import Function

from gpulab.compat.places import Place

FUNCTION_APPLY = Place(Function, "apply")
_PYTORCHS = vars(Function)["apply"]
_IN_PYTHON = isinstance(_PYTORCHS, classmethod)
_blocks = 0


def apply(cls, *args, **kwargs):
    """PyTorch's own, of the Function ``cls``."""
    return _PYTORCHS.__get__(None, cls)(*args, **kwargs)


CODE = _PYTORCHS.__func__.__code__ if _IN_PYTHON else apply.__code__
"""Of the frame that runs a Function: its local ``cls``."""


@contextmanager
def leaving_a_frame() -> Iterator[None]:
    """Inside the block, and below :func:`apply`, there is a frame with ``CODE`` around each Function."""
    global _blocks
    if not _IN_PYTHON and vars(Function)["apply"] is _PYTORCHS:
        Function.apply = classmethod(apply)
    _blocks += 1
    try:
        yield
    finally:
        _blocks -= 1
        if not _blocks and not _IN_PYTHON and getattr(Function.apply, "__func__", None) is apply:
            Function.apply = _PYTORCHS
