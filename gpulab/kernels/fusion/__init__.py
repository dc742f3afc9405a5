"""What ``torch.compile`` makes of a function: kernels, bytes, graph breaks, recompilations.

>>> from gpulab.kernels import fusion
>>> watched = fusion.watch(fn)          # in place of torch.compile(fn)     # doctest: +SKIP
>>> y = watched(x)                                                          # doctest: +SKIP
>>> watched.report                       # what happened, as plain data      # doctest: +SKIP
>>> fusion.eager(fn, x)                  # the same function as it is        # doctest: +SKIP

TorchDynamo and Inductor do their real work, as far as the Triton source of each fused kernel,
scheduled as for a GPU; no C++ compiler and no GPU is needed. Values are then computed on the CPU.
What the CPU decides differently: a reduction over few rows, which a GPU splits over two kernels,
is one here; scaled dot product attention is one library kernel.
"""

import importlib

_FROM = {
    "eager": "uncompiled",
    "Watched": "compiled",
    "watch": "compiled",
    **dict.fromkeys(("Call", "FusedKernel", "GraphBreak", "Recompilation", "Report"), "records"),
}
__all__ = sorted(_FROM)


def __getattr__(name: str):
    """Inductor takes seconds to import: only who compiles pays for it."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
