"""The roofline: how long a kernel takes by its arithmetic and its bytes."""

import math

import torch

from gpulab.cards.cards import Card
from gpulab.cards.constants import KERNEL_FLOOR_US, TILE
from gpulab.cuda.device.op_rules import OpRule

_FORMAT = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int8: "int8",
    torch.uint8: "int8",
    torch.complex128: "fp64",
}
_DOUBLES = (torch.float64, torch.complex128)


def flops_of(rule: OpRule, args, kwargs, inputs: list, result) -> int:
    """Floating-point operations of a matrix product, by PyTorch's own formula."""
    if rule.name == "aten.mm":
        a, b = inputs[0].shape, inputs[1].shape
        return 2 * a[0] * a[1] * b[1]
    if rule.name == "aten.addmm":
        a, b = inputs[1].shape, inputs[2].shape
        return 2 * a[0] * a[1] * b[1]
    if rule.own is not None:
        args = [value for value in args if not isinstance(value, torch.dtype)]
    return rule.flops(*args, **kwargs, out_val=result)


def _matrix_peak(card: Card, tensor: torch.Tensor, in_tf32: bool) -> float:
    fmt = _FORMAT.get(tensor.dtype, "fp32")
    if fmt == "fp64":
        return card.matrix_flops_per_s("fp64 matrix")
    if in_tf32:
        fmt = "tf32"
    return card.matrix_flops_per_s(fmt)


def kernel_us(
    card: Card, rule: OpRule, flops: int, nbytes: int, tensor: torch.Tensor, outputs: list, in_tf32: bool
) -> float:
    """Microseconds of the operation's kernel. ``tensor``: its first; ``nbytes``: read and written."""
    if rule.matrix:
        peak = _matrix_peak(card, tensor, in_tf32) * busy_share(card, rule, outputs)
    else:
        # Outside the matrix units half precision saves bytes, not arithmetic.
        peak = card.flops_per_s["fp64" if tensor.dtype in _DOUBLES else "fp32"]
    return duration_us(card, flops, nbytes / rule.memory_share, peak)


def duration_us(card: Card, flops: int, nbytes: float, peak: float) -> float:
    """Microseconds of one kernel."""
    return KERNEL_FLOOR_US + max(flops / peak, nbytes / card.sustained_bytes_per_s) * 1e6


def busy_share(card: Card, rule: OpRule, outputs: list) -> float:
    """Share of the multiprocessors that a product's waves of tiles keep busy."""
    if not outputs or outputs[0].dim() < 2 or "conv" in rule.name:
        return 1.0
    *batch, rows, columns = outputs[0].shape
    tiles = math.prod(batch) * -(-rows // TILE) * -(-columns // TILE)
    return tiles / (-(-tiles // card.multiprocessors) * card.multiprocessors) if tiles else 1.0


def distinct_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory behind a tensor that shows more than its storage holds: once each."""
    distinct = math.prod(n for n, s in zip(tensor.shape, tensor.stride()) if s)
    return distinct * tensor.element_size()


def sparse_work(rule: OpRule, inputs: list, outputs: list) -> tuple[int, int]:
    """Elements of a large first tensor that are used, and the bytes of it that are not.

    A lookup touches as many as it returns, a scatter as many as it is handed.
    """
    others = inputs[1:] if rule.writes else outputs
    used = min(inputs[0].numel(), max((tensor.numel() for tensor in others), default=1))
    return used, (inputs[0].numel() - used) * inputs[0].element_size()
