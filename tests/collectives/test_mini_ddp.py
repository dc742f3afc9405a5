"""E14.1's own solution has the gradients of PyTorch's DistributedDataParallel."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gpulab.collectives import run_ranks
from tests.solved import solved


@pytest.fixture(scope="module")
def mini_ddp():
    return solved("data_parallel", "mini_ddp", dist=dist)


class Net(torch.nn.Module):
    """A branch that some ranks do not use, a frozen layer, and buffers."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.norm, self.frozen = (
            torch.nn.Linear(6, 8),
            torch.nn.LayerNorm(8),
            torch.nn.Linear(8, 8).requires_grad_(False),
        )
        self.left, self.right = torch.nn.Linear(8, 3), torch.nn.Linear(8, 3)
        self.left.weight = torch.nn.Parameter(torch.rand(8, 3).t())
        self.register_buffer("scale", torch.rand(3))

    def forward(self, x, left):
        h = self.frozen(torch.tanh(self.norm(self.first(x))))
        return self.scale * (self.left(h) if left else self.right(h))


def step(model, rank, number):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(10 * number + rank))
    model(x, left=(rank + number) % 3 == 0).square().mean().backward()


def both(rank, world, mini_ddp):
    """The gradients of both, after each of some steps."""
    model, net = Net(rank), Net(rank)
    finish, theirs, found = (
        mini_ddp(model, 200),
        DistributedDataParallel(net, bucket_cap_mb=0.0002, find_unused_parameters=True),
        [],
    )
    for number in range(3):
        step(model, rank, number)
        finish()
        step(theirs, rank, number)
        found += [
            (p.grad.clone(), q.grad.clone())
            for p, q in zip(model.parameters(), net.parameters(), strict=True)
            if p.requires_grad
        ]
        model.zero_grad(set_to_none=number == 0)
        net.zero_grad(set_to_none=number == 0)
    return found, [p.grad for p in model.frozen.parameters()]


@pytest.mark.parametrize("transport", ["broker", "gloo"])
def test_its_gradients_are_those_of_distributed_data_parallel(mini_ddp, transport):
    run = run_ranks(both, 3, args=(mini_ddp,), card="off", backend="gloo", transport=transport)
    for found, frozen in run.results:
        assert len(found) == 3 * 8 and frozen == [None, None]
        for ours, theirs in found:
            torch.testing.assert_close(ours, theirs)
