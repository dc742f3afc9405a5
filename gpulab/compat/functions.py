"""Functions of ``torch`` and ``torch.nn.functional`` where their C++ stands, and what knows functions by identity."""

import torch
from torch.optim.optimizer import _foreach_supported_types

from gpulab.compat.places import Place

nn_functions = torch._C._nn
linalg_functions = torch._C._linalg
PARSE_TO = Place(torch._C._nn, "_parse_to")
PAD_PACKED_SEQUENCE = Place(torch._VF, "_pad_packed_sequence")
RECURRENT = tuple(Place(torch._VF, name) for name in ("rnn_tanh", "rnn_relu", "lstm", "gru"))
"""What ``torch.nn.RNN``, ``LSTM`` and ``GRU`` call."""
GROUP_TENSORS = Place(torch._C, "_group_tensors_by_device_and_dtype")
"""What ``foreach`` and ``fused`` optimizers and clipping ask."""
foreach_types = _foreach_supported_types
"""The list of classes whose tensors an optimizer takes together."""

flash_is_allowed = torch._C._get_flash_sdp_enabled
math_is_allowed = torch._C._get_math_sdp_enabled
allow_flash = torch._C._set_sdp_use_flash
allow_math = torch._C._set_sdp_use_math
"""The host's flags of ``scaled_dot_product_attention``."""


def parse_to(*args, **kwargs) -> tuple:
    """Device, dtype, non_blocking and memory format of the arguments of ``Tensor.to``."""
    return torch._C._nn._parse_to(*args, **kwargs)


def script_names() -> dict[int, str]:
    """TorchScript's own table, which it looks functions up in: by ``id`` the name of an operator."""
    return torch.jit._builtins._get_builtin_table()
