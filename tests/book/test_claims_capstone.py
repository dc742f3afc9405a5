"""Tests that settle the claims of the chapter "Capstone: fix a slow, unstable job", one per claim."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode


class Counted(TorchDispatchMode):
    """How many operations ran."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        return func(*args, **(kwargs or {}))


def trained(batches, wrapped=lambda layer, x: layer(x)):
    """Products and operations of the passes over some batches, and the gradients."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(2))
    with Counted() as counted, FlopCounterMode(display=False) as products:
        for batch in batches:
            x = batch.clone().requires_grad_()
            for layer in layers:
                x = wrapped(layer, x)
            x.square().sum().backward()
    return products.get_total_flops(), counted.operations, [p.grad for p in layers.parameters()]


def test_a_batch_in_parts_takes_the_same_products_in_more_operations():
    batch = torch.randn(32, 16, generator=torch.Generator().manual_seed(1))
    at_once, in_parts = trained([batch]), trained(batch.split(8))
    assert in_parts[0] == at_once[0] > 0
    assert in_parts[1] > 3 * at_once[1]
    for one, other in zip(at_once[2], in_parts[2], strict=True):
        torch.testing.assert_close(one, other)


def test_a_block_that_is_computed_again_takes_a_third_more_products():
    batch = [torch.randn(32, 16, generator=torch.Generator().manual_seed(1))]
    plain = trained(batch)
    again = trained(batch, lambda layer, x: checkpoint(layer, x, use_reentrant=False))
    # The last product of a block is not computed again: nothing of it is read.
    assert 1.15 < again[0] / plain[0] <= 4 / 3
    for one, other in zip(plain[2], again[2], strict=True):
        torch.testing.assert_close(one, other)
