"""The roofline: how long a kernel takes by its arithmetic and its bytes."""

import math

import torch

from gpulab.cuda.device.plans import Plan
from gpulab.cuda.machine.cards import Card
from gpulab.cuda.machine.constants import KERNEL_FLOOR_US

_FORMAT = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.int8: "int8",
    torch.uint8: "int8",
    torch.complex128: "fp64",
}


def flops_of(plan: Plan, args, kwargs, inputs: list, elements: int, result) -> int:
    """Floating-point operations: PyTorch's own formula, or one for each of ``elements``."""
    if plan.flops is None:
        return elements
    if plan.name == "aten.mm":
        a, b = inputs[0].shape, inputs[1].shape
        return 2 * a[0] * a[1] * b[1]
    if plan.name == "aten.addmm":
        a, b = inputs[1].shape, inputs[2].shape
        return 2 * a[0] * a[1] * b[1]
    return plan.flops(*args, **kwargs, out_val=result)


def peak_of(card: Card, plan: Plan, tensor: torch.Tensor) -> float:
    """Dense peak in FLOP/s for this operation on tensors of this dtype."""
    fmt = _FORMAT.get(tensor.dtype, "fp32")
    if not plan.matrix:
        # Outside the matrix units half precision saves bytes, not arithmetic.
        return card.flops_per_s["fp64" if fmt == "fp64" else "fp32"]
    if fmt == "fp32" and _tf32_allowed("conv" in plan.name):
        fmt = "tf32"
    return card.flops_per_s[fmt]


def _tf32_allowed(convolution: bool) -> bool:
    if convolution:
        return torch.backends.cudnn.allow_tf32
    return torch.backends.cuda.matmul.allow_tf32


def duration_us(card: Card, flops: int, nbytes: int, peak: float) -> float:
    """Microseconds of one kernel."""
    return KERNEL_FLOOR_US + max(flops / peak, nbytes / card.bytes_per_s) * 1e6


def distinct_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory behind a tensor that shows more than its storage holds: once each."""
    distinct = math.prod(n for n, s in zip(tensor.shape, tensor.stride()) if s)
    return distinct * tensor.element_size()


def sparse_work(plan: Plan, inputs: list, outputs: list) -> tuple[int, int]:
    """Elements of a large first tensor that are used, and the bytes of it that are not.

    A lookup touches as many as it returns, a scatter as many as it is handed.
    """
    others = inputs[1:] if plan.writes else outputs
    used = min(inputs[0].numel(), max((tensor.numel() for tensor in others), default=1))
    return used, (inputs[0].numel() - used) * inputs[0].element_size()
