"""What ``from gpulab.kernels import triton`` gives: Triton, with a ``jit`` that counts."""

import functools
from types import ModuleType

import torch
import triton as _triton
from triton.runtime import driver

from gpulab.cuda.device import state
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
    return driver.active.get_benchmarker()(kernel_call, quantiles=quantiles)


# A module, since Triton's compiler lets a kernel reach modules by name and no other objects.
triton = ModuleType("triton", f"Triton {_triton.__version__}; its jit and its autotune are gpulab's.")
triton.jit, triton.autotune = jit, autotune
triton.__getattr__ = lambda name: getattr(_triton, name)
