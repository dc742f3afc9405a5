"""``SyncBatchNorm``'s kernels, which PyTorch has for GPUs alone: the same formulas, each as one kernel.

Statistics and sums are in single precision, for double in double. ``invstd`` is 1 / sqrt(variance + eps), of the biased variance.
Source of the formulas: PyTorch's ``aten/src/ATen/native/cuda/Normalization.cuh``.
"""

import torch

from gpulab.compat.dispatch import OpOverload

Tensor = torch.Tensor


def _accumulated(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _over_channels(tensor: Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _by_channel(vector: Tensor, like: Tensor) -> Tensor:
    return vector.view(-1, *[1] * (like.dim() - 2))


def _in_dtype_of(result: Tensor, like: Tensor) -> Tensor:
    return torch.empty_like(like, device="cpu").copy_(result)


def _stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    dims = _over_channels(input)
    mean = torch.mean(input, dims, dtype=_accumulated(input))
    variance = (input - _by_channel(mean, input)).square().mean(dims)
    return mean, (variance + eps).rsqrt()


def _gather_stats_with_counts(
    input, mean, invstd, running_mean, running_var, momentum, eps, counts
) -> tuple[Tensor, Tensor]:
    counts = counts.view(-1, 1)
    total = counts.sum()
    whole = (mean * counts).sum(0) / total
    deviation = ((invstd.pow(-2) - eps + (mean - whole).square()) * counts).sum(0)
    for running, seen in ((running_mean, whole), (running_var, deviation / (total - 1))):
        if running is not None:
            running.mul_(1 - momentum).add_(seen, alpha=momentum)
    return whole, (deviation / total + eps).rsqrt()


def _elemt(input, weight, bias, mean, invstd, eps) -> Tensor:
    scale = invstd if weight is None else weight * invstd
    out = (input - _by_channel(mean, input)) * _by_channel(scale, input)
    return _in_dtype_of(out if bias is None else out + _by_channel(bias, input), input)


def _backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g) -> tuple[Tensor | None, ...]:
    dims = _over_channels(input)
    sum_dy = torch.sum(grad_out, dims, dtype=_accumulated(grad_out))
    sum_dy_xmu = (grad_out * (input - _by_channel(mean, input))).sum(dims)
    grad_weight = _in_dtype_of(sum_dy_xmu * invstd, weight) if weight_g else None
    grad_bias = _in_dtype_of(sum_dy, weight) if bias_g and weight is not None else None
    return (sum_dy, sum_dy_xmu, grad_weight, grad_bias) if input_g else (None, None, grad_weight, grad_bias)


def _backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count) -> Tensor:
    total = count.sum()
    slope = _by_channel(invstd.square() * sum_dy_xmu / total, input)
    centred = grad_out - _by_channel(sum_dy / total, input) - (input - _by_channel(mean, input)) * slope
    return _in_dtype_of(centred * _by_channel(invstd if weight is None else weight * invstd, input), input)


_KERNELS = {
    "aten::batch_norm_stats": _stats,
    "aten::batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "aten::batch_norm_elemt": _elemt,
    "aten::batch_norm_backward_reduce": _backward_reduce,
    "aten::batch_norm_backward_elemt": _backward_elemt,
}


def kernel_of(op: OpOverload):
    """What computes ``op`` on the host's memory, or None: PyTorch does. Only of functions that write nowhere."""
    return None if op._schema.overload_name else _KERNELS.get(op._schema.name)
