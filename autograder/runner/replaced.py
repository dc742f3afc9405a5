"""Finds what a learner's code has put in the place of a part of PyTorch, of gpulab or of the grader."""

import builtins
import functools
import operator
import sys
import time
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType

from gpulab.observe.lines import is_learners_file

_PACKAGES = ("gpulab.", "autograder.", "exercises.")
_MODULES = frozenset(
    "gpulab autograder exercises numpy torch torch.cuda torch.autograd torch.nn.functional torch.distributed "
    "torch.distributed.distributed_c10d torch.amp torch.cuda.amp torch.cuda.memory torch.profiler torch._C".split()
)

_WRAPPED = {
    functools.partial: lambda partial: partial.func,
    type(functools.lru_cache(len)): lambda cached: cached.__wrapped__,
    MethodType: lambda method: method.__func__,
    staticmethod: lambda method: method.__func__,
    classmethod: lambda method: method.__func__,
    property: lambda reads: reads.fget,
}
"""By its own type: what PyTorch deprecates warns when it is asked for its class."""


def replaced() -> Iterator[tuple[str, CodeType]]:
    """The path of each function of the learner's that stands in a namespace of theirs, and its code.

    Only where a namespace is not as it was at the last call: call it once before any cell runs.
    """
    for name, space in _namespaces():
        if not _is_as_before(space):
            yield from _learners_functions(name, space)


_before: dict[ModuleType | type, tuple[list, list]] = {}
"""By namespace: the values that stood there, and those of them that are of the types in ``_WRAPPED``, with what each calls."""


def _is_as_before(space: ModuleType | type) -> bool:
    """Compares objects by identity. A function's ``__code__`` can be replaced, too: of that Python raises an event."""
    values = list(vars(space).values())
    kept, wrapped = _before.get(space, ([], []))
    same = len(values) == len(kept) and all(map(operator.is_, values, kept))
    if same and all(_WRAPPED[type(value)](value) is called for value, called in wrapped):
        return True
    _before[space] = values, [(value, _WRAPPED[type(value)](value)) for value in values if type(value) in _WRAPPED]
    return False


def _learners_functions(name: str, space: ModuleType | type) -> Iterator[tuple[str, CodeType]]:
    for attribute, value in list(vars(space).items()):
        value = _WRAPPED.get(type(value), lambda plain: plain)(value)
        if type(value) is FunctionType and _is_learners(value):
            yield f"{name}.{attribute}", value.__code__
        elif (name, attribute) in _FUNCTIONS and type(value) not in (FunctionType, type):
            yield f"{name}.{attribute}", _NOWHERE


def _is_learners(function: FunctionType) -> bool:
    """Methods that Python writes for a dataclass have no file, and their module's namespace."""
    file = function.__code__.co_filename
    return function.__globals__.get("__name__") == "__main__" or not file.startswith("<") and is_learners_file(file)


def _namespaces() -> Iterator[tuple[str, ModuleType | type]]:
    yield from (("builtins", builtins), ("time", time), ("sys", sys))
    for name, module in list(sys.modules.items()):
        if name in _MODULES or name.startswith(_PACKAGES) and isinstance(module, ModuleType):
            yield name, module
            yield from ((f"{name}.{found.__name__}", found) for found in _classes(name, module))
    torch = sys.modules["torch"]
    yield from (("torch.Tensor", torch.Tensor), ("torch.nn.Module", torch.nn.Module))


def _classes(name: str, module: ModuleType) -> list[type]:
    """Those that it defines itself, PyTorch's aside: of its thousands two are looked at."""
    if name.startswith(("torch", "numpy")):
        return []
    return [found for found in list(vars(module).values()) if isinstance(found, type) and found.__module__ == name]


_NOWHERE = compile("", "", "exec")
_FUNCTIONS = frozenset(
    (name, attribute)
    for name, space in _namespaces()
    if name.startswith("torch")
    for attribute, value in vars(space).items()
    if type(value) is FunctionType
)
"""PyTorch's functions, as they are before any cell runs: what stands there later is a function of somebody's."""
