"""Names that a program bound before ``use()``: ``from torch import zeros`` above it.

Such a name is PyTorch's own function. In the learner's modules it is bound anew to what stands in
its place. Elsewhere (a library, a list of functions) a factory still works: PyTorch's C++ asks the
CUDA backend for empty memory, and this device is that backend.
"""

import sys
import types
import warnings
from itertools import islice

import torch

from gpulab.cuda.device.patches import Patches
from gpulab.observe.lines import is_learners_file


class Backend:
    """The two operations of a CUDA backend that every factory in PyTorch's C++ is made of."""

    def __init__(self) -> None:
        self._library: torch.library.Library | None = None

    def install(self) -> None:
        if torch.cuda.is_available():
            return
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            # A build for CUDA has kernels there, which without a GPU nothing can call.
            warnings.filterwarnings("ignore", "Warning only once for all operators")
            for name, kernel in (("empty.memory_format", _empty), ("empty_strided", _empty_strided)):
                self._library.impl(name, kernel, "CUDA")

    def remove(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None


def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    options = {} if memory_format is None else {"memory_format": memory_format}
    return torch.empty(size, dtype=dtype, device=device, **options)


def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return torch.empty_strided(size, stride, dtype=dtype, device=device)


_NEWEST = 64
_learners = {"__main__"}
"""Names under which a learner's module was found, and the one under which a kernel puts its own in place of Python's."""
_last_seen = ""
"""The newest of the modules that were looked at. There are thousands, and in a fork each look copies a page."""


def install(patches: Patches) -> None:
    """Bind the learner's names anew. To be called when all else is in place."""
    global _last_seen
    new = _modules_since(_last_seen)
    _learners.update(name for name in new if _is_learners(sys.modules[name]))
    _last_seen = next(iter(new), _last_seen)
    replaced = patches.replaced_functions()
    for module in [sys.modules[name] for name in _learners & sys.modules.keys()]:
        if _is_learners(module):
            _rebind(patches, module, replaced)


def _modules_since(last_seen: str) -> list[str]:
    """Names in ``sys.modules``, the newest first; all where the last one that was seen is gone."""
    newest = list(islice(reversed(sys.modules), _NEWEST))
    if last_seen not in newest:
        newest = list(reversed(sys.modules))
    return newest[: newest.index(last_seen)] if last_seen in newest else newest


def _is_learners(module) -> bool:
    if not isinstance(module, types.ModuleType):
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ == "__main__"
    return is_learners_file(file)


def _rebind(patches: Patches, module, replaced: dict) -> None:
    for name, value in list(vars(module).items()):
        new = replaced.get(id(value))
        if new is not None:
            patches.set(module, name, new)
