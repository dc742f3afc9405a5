"""FLOP formulas: PyTorch's own (``torch.utils.flop_counter``), and of what it has none for.

The host's variants of an operation stand for CUDA's here, so they count as those do.
"""

import torch
from torch._ops import OpOverload
from torch.utils.flop_counter import flop_registry

_aten = torch.ops.aten
_STANDS_FOR = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _aten._scaled_dot_product_flash_attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        _aten._scaled_dot_product_flash_attention_backward
    ),
    "aten::_addmm_activation": _aten.addmm,
}


def _addbmm(bias, batch1, batch2, **options) -> int:
    return 2 * batch1.shape[0] * batch1.shape[1] * batch1.shape[2] * batch2.shape[2]


def _matrix_vector(matrix, vector, **options) -> int:
    return 2 * matrix.numel()


def _rnn_layer(source, input_weights, hidden_weights, *rest, **options) -> int:
    steps = source.shape[0] * source.shape[1]
    return 2 * steps * (input_weights.numel() + hidden_weights.numel())


_OWN = {"aten::addbmm": _addbmm, "aten::mv": _matrix_vector, "aten::mkldnn_rnn_layer": _rnn_layer}


def flop_formula(op: OpOverload):
    """The formula of ``op``: its arguments and ``out_val`` to FLOPs. None when it is no product."""
    name = op._schema.name
    return _OWN.get(name) or flop_registry.get(_STANDS_FOR.get(name, op.overloadpacket))


def shown_name(op: OpOverload) -> str:
    """The operation's name as a card would have it."""
    return op._schema.name.replace("::", ".").replace("_for_cpu", "")
