"""Which kernel ``scaled_dot_product_attention`` may take: the card's rules, where a program chooses.

``torch.nn.attention.sdpa_kernel`` allows some kernels. The host has fewer of them and takes other
dtypes, so the choice is made here by what a card demands of each. Source: PyTorch's
``aten/src/ATen/native/transformers/cuda/sdp_utils.cpp``.
"""

import functools
import warnings

import torch

from gpulab.compat.functions import allow_flash, allow_math, flash_is_allowed, math_is_allowed, nn_functions
from gpulab.cuda.device import state
from gpulab.cuda.device.patches import Patches

_HALVES = (torch.float16, torch.bfloat16)
_LARGEST_FLASH_HEAD, _LARGEST_CUDNN_HEAD = 256, 128
_FUSED_NEED = (8, 0)


def install(patches: Patches) -> None:
    """Check the choice in front of PyTorch's function. To be called after what replaces it on a ghost card."""
    attend = _chosen(torch.nn.functional.scaled_dot_product_attention)
    for owner in (torch.nn.functional, nn_functions):
        patches.set(owner, "scaled_dot_product_attention", attend)


def _allowed() -> dict[str, bool]:
    cuda = torch.backends.cuda
    return {
        "flash": cuda.flash_sdp_enabled(),
        "efficient": cuda.mem_efficient_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
    }


def _chosen(original):
    @functools.wraps(original)
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        allowed = _allowed()
        if all(allowed.values()) or not query.is_cuda:
            return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)
        fits = _fitting(query, attn_mask)
        kernel = next((name for name in ("flash", "cudnn", "efficient") if allowed[name] and fits[name]), None)
        if kernel is None and not allowed["math"]:
            warnings.warn(f"allowed and not fitting: {[name for name in fits if allowed[name]]}", stacklevel=2)
            raise RuntimeError("No available kernel. Aborting execution.")
        with _host_takes(fused=kernel is not None):
            return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)

    return scaled_dot_product_attention


def _fitting(query, mask) -> dict[str, bool]:
    card = state.device_on().card
    modern = tuple(card.capability) >= _FUSED_NEED
    half, head = query.dtype in _HALVES, query.shape[-1]
    four = query.dim() == 4
    return {
        "flash": four and half and modern and mask is None and head <= _LARGEST_FLASH_HEAD,
        "cudnn": four and half and modern and head <= _LARGEST_CUDNN_HEAD and head % 8 == 0,
        "efficient": four and (query.dtype in (torch.float32, torch.float16) or half and modern),
    }


class _host_takes:
    """Inside the block the host's flags are what the card's choice asks of it."""

    def __init__(self, fused: bool) -> None:
        self._fused = fused

    def __enter__(self) -> None:
        self._before = flash_is_allowed(), math_is_allowed()
        allow_flash(self._fused)
        allow_math(True)

    def __exit__(self, *exc) -> None:
        flash, math = self._before
        allow_flash(flash)
        allow_math(math)
