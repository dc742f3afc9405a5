"""PyTorch's causal biases can be made while an observation watches."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

import torch

from gpulab.compat.tensors import make_subclass

_MODULE = "torch.nn.attention.bias"


@contextmanager
def causal_biases_can_be_made() -> Iterator[None]:
    """Inside the block, which may hold another: PyTorch's own constructor of a subclass raises under a dispatch mode."""
    outermost = _WhenImported not in sys.meta_path
    if outermost:
        sys.meta_path.insert(0, _WhenImported)
        _let_be_made(True)
    try:
        yield
    finally:
        if outermost:
            sys.meta_path.remove(_WhenImported)
            _let_be_made(False)


def _let_be_made(yes: bool) -> None:
    """Where the module is imported at all."""
    if (module := sys.modules.get(_MODULE)) is None:
        return
    if yes:
        module.CausalBias.__new__ = _empty
    elif "__new__" in vars(module.CausalBias):
        del module.CausalBias.__new__


def _empty(cls, *_, **__):
    return make_subclass(cls, torch.empty(0))


class _Loader(SourceFileLoader):
    def exec_module(self, module) -> None:
        super().exec_module(module)
        _let_be_made(True)


class _WhenImported:
    """Waits for the module: it brings all of torch._dynamo along, a second's import that few observations need."""

    @staticmethod
    def find_spec(name: str, path: list[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
