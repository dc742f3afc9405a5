"""Kernels written in Python, under the microscope.

``from gpulab.kernels import cuda, float32`` carries ``numba.cuda``'s names: the same source runs
under an interpreter without a GPU and through ``numba-cuda`` with one. ``from gpulab.kernels import
triton, tl`` gives Triton. An ``observe()`` block counts the launches of both.
"""

from importlib import import_module

_HOME = {
    "triton": "gpulab.kernels.tiles",
    "tl": "gpulab.kernels.tiles",
    "warp_order": "gpulab.kernels.simt.launcher",
    "trace": "gpulab.kernels.simt.steps",
    **dict.fromkeys(
        ("CompileError", "EndlessLoop", "KernelError", "LaunchError", "MemoryFault", "RaceWarning"),
        "gpulab.kernels.errors",
    ),
}
_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def __getattr__(name: str):
    # Only who asks for it pays for its import.
    if name in _DTYPES:
        return getattr(import_module("numpy"), name)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
