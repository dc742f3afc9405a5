"""Operations on ghost tensors: PyTorch's shape functions, on ordinary meta tensors.

Many of those functions are written in Python and ask their arguments for the device, so they
must not meet a tensor that says it is on the card.
"""

import functools

import torch

from gpulab.compat.default_device import no_default_device
from gpulab.compat.dispatch import DisableTorchFunction
from gpulab.compat.functions import nn_functions
from gpulab.compat.pytree import tree_map_only
from gpulab.compat.tensors import TensorBase
from gpulab.cuda.device import state, transfer
from gpulab.cuda.device.patches import Patches
from gpulab.cuda.device.shape_cache import answered

Tensor = torch.Tensor


_LARGEST_FLASH_HEAD, _LARGEST_CUDNN_HEAD = 256, 128
_CUDNN_FIRST = {(9, 0), (10, 0)}
"""Where PyTorch asks cuDNN before flash: ``check_prefer_cudnn_attention`` in its ``sdp_utils.cpp``."""


def install(patches: Patches) -> None:
    """Attention takes the kernel that a card takes: for meta tensors PyTorch writes every score out."""
    attend = _attention(torch.nn.functional.scaled_dot_product_attention)
    for owner in (torch.nn.functional, nn_functions):
        patches.set(owner, "scaled_dot_product_attention", attend)


def _attention(original):
    @functools.wraps(original)
    def scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
    ):
        fused = query.is_cuda and state.device_on().ghost and query.shape[-1] % 8 == 0 and query.dim() == 4
        half = query.dtype in (torch.float16, torch.bfloat16)
        by_cudnn = half and query.shape[-1] <= _LARGEST_CUDNN_HEAD
        if fused and by_cudnn and state.device_on().card.capability in _CUDNN_FIRST:
            bias, call = _as_bias(attn_mask, query), torch.ops.aten._scaled_dot_product_cudnn_attention
            return call(query, key, value, bias, torch.is_grad_enabled(), dropout_p, is_causal, scale=scale)[0]
        if fused and half and attn_mask is None and query.shape[-1] <= _LARGEST_FLASH_HEAD:
            call = torch.ops.aten._scaled_dot_product_flash_attention
            return call(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        if fused and not enable_gqa:
            bias = _as_bias(attn_mask, query)
            call = torch.ops.aten._scaled_dot_product_efficient_attention
            return call(query, key, value, bias, torch.is_grad_enabled(), dropout_p, is_causal, scale=scale)[0]
        return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    return scaled_dot_product_attention


def _as_bias(mask, query):
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask.logical_not(), -torch.inf)
    return mask.expand(*query.shape[:2], *mask.shape[-2:])


def shapes_of(cls, func, args, kwargs):
    """What ``func`` returns, without values; an argument written in place comes back itself."""
    with DisableTorchFunction(), no_default_device():
        return answered(cls, func, args, kwargs, functools.partial(_asked, cls, func, args, kwargs))


def _asked(cls, func, args, kwargs):
    lent: dict[int, tuple[Tensor, Tensor]] = {}  # by the identity of what was lent

    def lend(tensor: Tensor) -> Tensor:
        plain = transfer.plain(tensor)
        lent[id(plain)] = tensor, plain
        return plain

    args, kwargs = tree_map_only(cls, lend, (args, kwargs))
    out = func(*args, **kwargs)
    for tensor, plain in lent.values():
        if _geometry(tensor) != _geometry(plain):  # resize_, t_, set_, out=
            TensorBase.set_(tensor, plain.untyped_storage(), plain.storage_offset(), plain.shape, plain.stride())
    return tree_map_only(Tensor, lambda tensor: lent.get(id(tensor), (tensor,))[0], out)


def _geometry(tensor: Tensor) -> tuple:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.untyped_storage()._cdata
