"""The same function without ``torch.compile``: a kernel for each operation."""

import copy
from collections.abc import Callable
from contextlib import nullcontext

import torch

import gpulab.cuda
from gpulab.compat.pytree import tree_map
from gpulab.cuda.device import state
from gpulab.kernels.fusion.records import Call, FusedKernel
from gpulab.observe import observe


def eager(fn: Callable, *args, **kwargs) -> Call:
    """Call ``fn`` on the virtual card and return the kernels it launches, each of one operation.

    Tensors and modules on the host are copied to the card first, which is not counted. fn: a function
    or a module; what it makes itself, it must make on its arguments' device.
    """
    with nullcontext() if state.is_on() else gpulab.cuda.use("virtual", quiet=True):
        fn = copy.deepcopy(fn).cuda() if isinstance(fn, torch.nn.Module) else fn
        args, kwargs = tree_map(_on_card, (args, kwargs))
        with observe() as seen:
            fn(*args, **kwargs)
    return Call(
        tuple(
            FusedKernel(
                kernel.name,
                "library",
                (kernel.name,),
                () if kernel.line is None else (kernel.line,),
                kernel.bytes_read,
                kernel.bytes_written,
            )
            for kernel in seen.kernels
        )
    )


def _on_card(value):
    return value.cuda() if isinstance(value, torch.Tensor) and not value.is_cuda else value
