"""Our own FLOP formulas agree with PyTorch's where PyTorch has one."""

import torch
from torch.utils.flop_counter import flop_registry

from gpulab.cuda.device.flops import flop_formula

aten = torch.ops.aten
FORWARD = "_scaled_dot_product_flash_attention"


def heads(number: int, length: int, width: int = 16) -> torch.Tensor:
    return torch.empty(2, number, length, width)


def test_attention_counts_as_pytorch_counts_it():
    arguments = heads(4, 6), heads(4, 10), heads(4, 10)
    for name, given in ((FORWARD, arguments), (f"{FORWARD}_backward", (heads(4, 6), *arguments))):
        ours = flop_formula(getattr(aten, name.replace("attention", "attention_for_cpu")).default)
        assert ours(*given) == flop_registry[getattr(aten, name)](*given, out_val=None)


def test_grouped_heads_count_as_if_each_query_had_its_own():
    ours = flop_formula(aten._scaled_dot_product_flash_attention_for_cpu.default)
    assert ours(heads(4, 6), heads(2, 10), heads(2, 10)) == ours(heads(4, 6), heads(4, 10), heads(4, 10))
