"""Products in TF32: a card rounds the factors to 10 bits of mantissa and sums in float32.

To nearest, ties away from zero, as PTX's ``cvt.rna.tf32.f32`` and CUTLASS (``tfloat32.h``,
``round_half_ulp_truncate``) do. NVIDIA does not say how cuBLAS and cuDNN round; an H100's error
(``evidence``, "the same in TF32") is that of rounding to nearest, which is two fifths of that of cutting off.

A matrix times a vector, and fused attention, stay in float32 whatever is allowed: PyTorch's
``CUDABlas.cpp`` switches TF32 off for ``gemv``, and its memory-efficient kernel makes up for the
rounding with further products (``OpMultiplyAddFastF32``).
"""

from dataclasses import dataclass

import torch

from gpulab.cards.cards import Card
from gpulab.compat.precision import fp32_precision
from gpulab.cuda.device import recurrent

Tensor = torch.Tensor
_aten = torch.ops.aten
_NEEDS = (8, 0)
_DTYPES = (torch.float32, torch.complex64)
_HALF_A_STEP, _KEPT = 1 << 12, -(1 << 13)


@dataclass(frozen=True)
class Factors:
    """Of a product's arguments those that are rounded, by position, and whose setting decides: ``matmul``, ``conv``, ``rnn``."""

    setting: str
    positions: tuple[int, ...]


_MATRICES, _AFTER_A_SUMMAND = Factors("matmul", (0, 1)), Factors("matmul", (1, 2))
_FACTORS = {
    "aten::mm": _MATRICES,
    "aten::bmm": _MATRICES,
    "aten::addmm": _AFTER_A_SUMMAND,
    "aten::baddbmm": _AFTER_A_SUMMAND,
    "aten::addbmm": _AFTER_A_SUMMAND,
    "aten::_addmm_activation": _AFTER_A_SUMMAND,
    "aten::convolution": Factors("conv", (0, 1)),
    "aten::_convolution": Factors("conv", (0, 1)),
    "aten::convolution_backward": Factors("conv", (0, 1, 2)),
    # Inputs, weights and the state before the first step; the host's kernel keeps later states to itself.
    "aten::mkldnn_rnn_layer": Factors("rnn", (0, 1, 2, 5)),
    "aten::mkldnn_rnn_layer_backward": Factors("rnn", (0, 1, 2, 5, 10, 11)),
}


def factors_of(name: str) -> Factors | None:
    """The factors of the operator called ``name``, with its namespace; None where a card multiplies nothing in TF32."""
    return _FACTORS.get(name.removesuffix("_"))


def is_used(card: Card, factors: Factors, args) -> bool:
    """Whether ``card`` takes this product in TF32: it can, the factors are float32, and the program allows it."""
    if card.capability < _NEEDS or args[factors.positions[0]].dtype not in _DTYPES:
        return False
    setting = factors.setting
    if setting == "matmul" and recurrent.is_computed():
        setting = "rnn"
    if setting != "matmul" and not torch.backends.cudnn.enabled:
        setting = "matmul"
    elif setting == "conv" and _is_of_pytorchs_own(*args[len(factors.positions) - 2 :]):
        return False
    return fp32_precision("cuda", setting) == "tf32"


def _is_of_pytorchs_own(
    source, weight, bias, stride, padding, dilation, transposed, out_padding, groups, *rest
) -> bool:
    """Whether a convolution is depthwise and not channels-last: PyTorch's own kernel then takes it, in float32.

    Source: ``is_depthwise`` and ``use_cudnn_depthwise`` in ``aten/src/ATen/native/Convolution.cpp``.
    """
    if transposed or groups == 1 or source.shape[1] != groups or weight.shape[0] % groups:
        return False
    return not (_is_channels_last(source) or _is_channels_last(weight))


def _is_channels_last(tensor: Tensor) -> bool:
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return last is not None and tensor.is_contiguous(memory_format=last) and not tensor.is_contiguous()


def computed(func, factors: Factors, /, *args, **kwargs):
    """What ``func`` gives for rounded factors. To be called below ``__torch_dispatch__``."""
    exact, args = args, list(args)
    for position in factors.positions:
        if args[position] is not None:
            args[position] = rounded(args[position])
    if func is not _aten.convolution_backward.default:
        return func(*args, **kwargs)
    # The gradient of the bias is a sum and no product.
    *rest, (for_source, for_weight, for_bias) = args
    first, second, _ = func(*rest, [for_source, for_weight, False])
    others = [dim for dim in range(exact[0].dim()) if dim != 1]
    return first, second, _aten.sum.dim_IntList(exact[0], others) if for_bias else None


def rounded(x: Tensor) -> Tensor:
    """A new tensor of the shape and dtype of ``x``, float32 or complex64, with 10 bits of mantissa; infinities and NaN stay."""
    if x.is_conj():  # products read the bit themselves
        return _aten._conj(rounded(_aten._conj(x)))
    if x.is_complex():
        return _aten.view_as_complex(rounded(_aten.view_as_real(x)))
    bits = _aten.add.Scalar(_aten.view.dtype(x, torch.int32), _HALF_A_STEP)
    near = _aten.view.dtype(_aten.bitwise_and_.Scalar(bits, _KEPT), torch.float32)
    return _aten.where.self(_aten.eq.Tensor(x, x), near, x)
