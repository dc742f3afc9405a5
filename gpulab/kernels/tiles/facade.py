"""What ``from gpulab.kernels import triton`` gives: Triton, with a ``jit`` that counts."""

import functools
from types import ModuleType

import torch
import triton as _triton

from gpulab.cuda.device import state
from gpulab.kernels.tiles.driver import ACTIVE, Driver, do_bench
from gpulab.kernels.tiles.kernel import Kernel


def jit(fn=None, **options):
    """``@triton.jit``: see :class:`gpulab.kernels.tiles.kernel.Kernel`."""
    return functools.partial(Kernel, **options) if fn is None else Kernel(fn, **options)


def autotune(configs, key, **options):
    """``@triton.autotune``. Without a GPU nothing can be timed: the first config, after pruning, runs.

    ``kernel.configs`` lists them; ``kernel.fn[grid](..., **config.all_kwargs())`` runs one.
    """
    return _triton.autotune(configs, key, **{"do_bench": _time, **options})


def _time(kernel_call, quantiles):
    """Times of a config in ms by quantile; all alike where no GPU runs it."""
    if state.is_on() or not torch.cuda.is_available():
        return [0.0] * len(quantiles)
    return ACTIVE.get_benchmarker()(kernel_call, quantiles=quantiles)


def _around(module: ModuleType, **own) -> ModuleType:
    """``module`` with some names of its own."""
    wrapped = ModuleType(module.__name__, module.__doc__)
    wrapped.__dict__.update(own)
    wrapped.__getattr__ = lambda name: getattr(module, name)
    return wrapped


# A module, since Triton's compiler lets a kernel reach modules by name and no other objects.
triton = _around(
    _triton,
    __doc__=f"Triton {_triton.__version__}; its jit, its autotune and, without a GPU, its driver are gpulab's.",
    jit=jit,
    autotune=autotune,
    runtime=_around(_triton.runtime, driver=Driver()),
    testing=_around(_triton.testing, do_bench=do_bench),
)
