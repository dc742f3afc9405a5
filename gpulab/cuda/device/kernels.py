"""Where a card has other kernels than the host: what it refuses, and what it takes besides.

A card refuses integers where its matrix and pooling kernels are written for floating point. It takes
some half-precision inputs that the host's kernels do not: those are computed in single precision.
Sources: the names of the kernels in PyTorch's ``aten/src/ATen/native/cuda``; the dtypes in OpInfo's
``dtypesIfCUDA``.
"""

import re
from collections.abc import Callable

import torch

from gpulab.compat.dispatch import OPDEFS, DispatchKey, DispatchKeySet, has_kernel
from gpulab.compat.pytree import tree_map_only
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
_INTEGERS = frozenset({torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool})
_HALVES = frozenset({torch.float16, torch.bfloat16})
_NAMES = {
    torch.int64: "Long",
    torch.int32: "Int",
    torch.int16: "Short",
    torch.int8: "Char",
    torch.uint8: "Byte",
    torch.bool: "Bool",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
}
# Operators with kernels in C++: those of the host stand for the card's.
_PYTORCHS = ("aten::", "prim", "torchvision::", "torchaudio::", "quantized", "profiler::", "mkldnn", "inductor::")
# Of an operation the kernel that refuses, and the dtypes that it has no code for.
_NO_CODE = {
    "aten::mm": ("addmm_cuda", _INTEGERS),
    "aten::addmm": ("addmm_cuda", _INTEGERS),
    "aten::bmm": ("baddbmm_cuda", _INTEGERS),
    "aten::baddbmm": ("baddbmm_cuda", _INTEGERS),
    "aten::mv": ("addmv_impl_cuda", _INTEGERS),
    "aten::addmv": ("addmv_impl_cuda", _INTEGERS),
    "aten::dot": ("dot", _INTEGERS),
    "aten::vdot": ("vdot", _INTEGERS),
    "aten::convolution": ("slow_conv2d_cuda", _INTEGERS),
    "aten::avg_pool2d": ("avg_pool2d_out_cuda_frame", _INTEGERS),
    "aten::avg_pool3d": ("avg_pool3d_out_cuda", _INTEGERS),
    "aten::max_pool2d_with_indices": ("max_pool2d_with_indices_out_cuda_frame", _INTEGERS),
    "aten::max_pool3d_with_indices": ("max_pool3d_with_indices_out_frame", _INTEGERS),
    "aten::native_dropout": ("fused_dropout", _INTEGERS),
    "aten::upsample_bilinear2d": ("upsample_bilinear2d_out_frame", _INTEGERS),
    "aten::upsample_bicubic2d": ("upsample_bicubic2d_out_frame", _INTEGERS),
    "aten::igamma": ("igamma_cuda", _HALVES),
    "aten::igammac": ("igammac_cuda", _HALVES),
    "aten::histc": ("histc", _HALVES | {torch.bool}),
}
_NO_KERNEL = ("aten::histogram", "aten::_histogramdd_bin_edges", "aten::_histogramdd_from_bin_cts")
# They have code for half precision on a card and none on the host; of histc: for integers.
_WIDER = {
    "aten::avg_pool3d": torch.float32,
    "aten::avg_pool3d_backward": torch.float32,
    "aten::multi_margin_loss": torch.float32,
    "aten::multi_margin_loss_backward": torch.float32,
    "aten::multilabel_margin_loss_forward": torch.float32,
    "aten::multilabel_margin_loss_backward": torch.float32,
    "aten::histc": torch.float64,
}


_HAS_NO_KERNEL = re.compile(r"Could not run '.*' with arguments from the '(CPU|Meta)' backend")


def refusal_of(schema):
    """A function that raises what a card raises for the dtype of a tensor, or None: it takes them all."""
    name = schema.name.removesuffix("_")
    if name.startswith(_NO_KERNEL):
        return lambda dtype: _raise_no_kernel(f"{name}.{schema.overload_name}".removesuffix("."))
    if name not in _NO_CODE:
        return None
    kernel, dtypes = _NO_CODE[name]
    return lambda dtype: _raise_no_code(kernel, dtype) if dtype in dtypes else None


def _raise_no_code(kernel: str, dtype) -> None:
    raise NotImplementedError(f"\"{kernel}\" not implemented for '{_NAMES[dtype]}'")


def _raise_no_kernel(name: str) -> None:
    raise NotImplementedError(
        f"Could not run '{name}' with arguments from the 'CUDA' backend. This could be because the operator "
        "doesn't exist for this backend, or was omitted during the selective/custom build process"
    )


def with_other_dtype(func):
    """``mm`` and its kin with ``out_dtype``: products of halves, summed and given in single precision."""
    packet = func._schema.name.removeprefix("aten::")
    if packet not in ("mm", "bmm", "addmm", "baddbmm") or "dtype" not in func._overloadname.split("_"):
        return None

    def product(*args, out=None, **kwargs):
        tensors = [value for value in args if isinstance(value, Tensor)]
        (dtype,) = (value for value in args if isinstance(value, torch.dtype))
        result = getattr(torch, packet)(*(tensor.to(dtype) for tensor in tensors), **kwargs)
        return result if out is None else out.copy_(result)

    return product


ANSWERED: dict[str, Callable] = {}
"""By namespace, what answers its operations: ``(op, args, kwargs)``."""


def program_of(op):
    """What runs a custom operator's own kernel on device tensors, or None: it is written in C++.

    ``torch.library.custom_op`` and ``register_kernel`` make such kernels: Python, whose operations
    are the card's work.
    """
    name, keys = op._schema.name, DispatchKey
    if op.namespace in ANSWERED:
        return lambda *args, **kwargs: ANSWERED[op.namespace](op, args, kwargs)
    if name.startswith(_PYTORCHS):
        return None
    has = has_kernel
    own = f"{name}.{op._overloadname}" if op._overloadname != "default" else name
    if not has(own, "CUDA") and not has(own, "CompositeExplicitAutograd"):
        return (lambda *args, **kwargs: _raise_no_kernel(name)) if name in OPDEFS else None
    on_card = DispatchKeySet(keys.CUDA)
    return lambda *args, **kwargs: op.redispatch(on_card, *args, **kwargs)


def widened(func, args, kwargs, error: NotImplementedError):
    """The result by way of a wider dtype where a card takes this one. Raises ``error`` in a card's words where not, or NotModelled."""
    if _HAS_NO_KERNEL.match(str(error)):
        raise NotModelled(
            f"{func._schema.name} (PyTorch has no kernel of it for the host, which computes here)"
        ) from None
    wide = _WIDER.get(func._schema.name)
    if wide is None or "not implemented for" not in str(error):
        raise type(error)(re.sub(r"_cpu(_?)(\w*)\" not", r'_cuda\1\2" not', str(error))) from None
    narrow = next(value.dtype for value in args if isinstance(value, Tensor))
    args, kwargs = tree_map_only(Tensor, lambda t: t.to(wide) if t.dtype == narrow else t, (args, kwargs))
    out = func(*args, **kwargs)
    return tree_map_only(Tensor, lambda t: t.to(narrow) if t.dtype == wide else t, out)
