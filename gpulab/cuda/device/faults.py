"""Values that a kernel finds wrong: a card says so later, and is then of no use to the process.

An index out of range fails an assertion inside a kernel. The launch has returned long before; the
error comes out at the next call that waits, and from then on at every call. With
``CUDA_LAUNCH_BLOCKING=1`` each launch waits, so that the error comes out where it was made. An
integer divided by zero is no error at all: what comes out is not defined.
"""

import os
import re
import sys

import torch

from gpulab.compat.pytree import tree_map_only
from gpulab.cuda.device.accelerator_errors import accelerator_error
from gpulab.cuda.errors import NotModelled

Tensor = torch.Tensor
_ASSERTING = {
    "aten::index", "aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index", "aten::embedding",
    "aten::embedding_dense_backward", "aten::_embedding_bag", "aten::_embedding_bag_forward_only",
    "aten::index_select", "aten::gather", "aten::scatter", "aten::scatter_add", "aten::scatter_reduce",
    "aten::take", "aten::put", "aten::index_add", "aten::index_copy", "aten::index_fill",
    "aten::index_reduce", "aten::nll_loss_forward", "aten::nll_loss2d_forward", "aten::multinomial",
    "aten::binary_cross_entropy", "aten::cross_entropy_loss",
}  # fmt: skip
_FAILED = re.compile(
    r"is out of bounds|not in the valid range|index out of range in self|tried to access index|out of bounds: |"
    r"between 0 and 1|probability tensor contains|\(\): index .* out of (bounds|range)"
)
_DIVISIONS = {"aten::floor_divide", "aten::div", "aten::remainder", "aten::fmod"}
_BY_ZERO = "ZeroDivisionError"


def result_despite(cls, device, func, args, kwargs, error: Exception):
    """What a card's launch returns where the host's kernel raised ``error``; None: a card raises it too."""
    name = func._schema.name.removesuffix("_")
    if name in _DIVISIONS and str(error).startswith(_BY_ZERO):
        return _divided(func, args, kwargs)
    if name not in _ASSERTING or not _FAILED.search(str(error)):
        return None
    if device.capture is not None:
        raise NotModelled("an index out of range inside a CUDA graph") from error
    out = _undefined(cls, func, args, kwargs)
    _fail(device.machine, f"{name.replace('aten::', 'aten.')}: Assertion `{error}` failed.")
    return out


def is_of_a_value(func, args, kwargs) -> bool:
    """Whether an operation that failed does not fail for tensors of these shapes and dtypes, as far as PyTorch can say that."""
    shadow = tree_map_only(Tensor, _on_meta, (args, kwargs))
    try:
        func(*shadow[0], **shadow[1])
    except NotImplementedError:
        return True
    except Exception:  # PyTorch's kernels raise what they like
        return False
    return True


def _undefined(cls, func, args, kwargs):
    """Memory of the shape that the operation gives, with no values of meaning."""
    for argument, value in zip(func._schema.arguments, args):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return value
    if kwargs.get("out") is not None:
        return kwargs["out"]
    shadow = tree_map_only(Tensor, _on_meta, (args, kwargs))
    out = func(*shadow[0], **shadow[1])
    return tree_map_only(Tensor, lambda t: torch.zeros_like(t, device="cpu"), out)


def _on_meta(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _fail(machine, assertion: str) -> None:
    def at_next_wait() -> None:
        print(assertion, file=sys.stderr)
        for call in ("kernel", "copy", "malloc", "wait", "has_passed", "launch_graph"):
            setattr(machine, call, _refuse)
        _refuse()

    machine.refuse_wait = at_next_wait
    if os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
        at_next_wait()


def _refuse(*args, **kwargs):
    raise accelerator_error("cudaErrorAssert", "device-side assert triggered")


def _divided(func, args, kwargs):
    divisor = args[1]
    if not isinstance(divisor, Tensor):
        return func(args[0], -1 if divisor == 0 else divisor, *args[2:], **kwargs)
    zero = divisor == 0
    out = func(args[0], torch.where(zero, 1, divisor).to(divisor.dtype), *args[2:], **kwargs)
    return out.masked_fill_(zero.expand(out.shape), -1)
