"""FLOP formulas by operator: PyTorch's own (``torch.utils.flop_counter``), and ours where it has none.

The virtual device computes with the CPU's variants of CUDA's operators: each counts as the one it stands for.
"""

import torch
from torch.utils.flop_counter import flop_registry

from gpulab.compat.dispatch import OpOverload

_STANDS_FOR = {"aten::_addmm_activation": torch.ops.aten.addmm}


def _attention(query, key, value, *rest, **options) -> int:
    """Scores, and their product with the values. PyTorch 2.11's own formula takes no grouped queries; that of 2.13 does."""
    return 2 * _count_of_scores(query, key) * (query.shape[-1] + value.shape[-1])


def _attention_backward(gradient, query, key, value, *rest, **options) -> int:
    """The scores again, and the gradients of scores, values, queries and keys."""
    return 2 * _count_of_scores(query, key) * (3 * query.shape[-1] + 2 * value.shape[-1])


def _count_of_scores(query, key) -> int:
    return query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]


def _addbmm(bias, batch1, batch2, **options) -> int:
    return 2 * batch1.shape[0] * batch1.shape[1] * batch1.shape[2] * batch2.shape[2]


def _matrix_vector(matrix, vector, **options) -> int:
    return 2 * matrix.numel()


def _rnn_layer(source, input_weights, hidden_weights, *rest, **options) -> int:
    tokens = source.shape[0] * source.shape[1]
    return 2 * tokens * (input_weights.numel() + hidden_weights.numel())


_OWN = {
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "aten::addbmm": _addbmm,
    "aten::mv": _matrix_vector,
    "aten::mkldnn_rnn_layer": _rnn_layer,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}


def flop_formula(op: OpOverload):
    """The formula of ``op``, which is called with its arguments and ``out_val`` and gives FLOPs; None where it multiplies no matrices."""
    name = op._schema.name
    return _OWN.get(name) or flop_registry.get(_STANDS_FOR.get(name, op.overloadpacket))


def shown_name(op: OpOverload) -> str:
    """The operator's name in tables: with a dot, and without ``_for_cpu``."""
    return op._schema.name.replace("::", ".").replace("_for_cpu", "")
