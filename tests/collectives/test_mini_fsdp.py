"""E15.2's own solution trains like one process with all ranks' batches, and like PyTorch's fully_shard."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from gpulab.collectives import run_ranks
from tests.solved import solved

BATCH = torch.linspace(-1, 1, 12 * 5).view(12, 5)
STEPS = 3


@pytest.fixture(scope="module")
def mini_fsdp():
    return solved("sharding", "mini_fsdp", dist=dist, nn=torch.nn)


def net():
    torch.manual_seed(0)
    unit = lambda: torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 5))
    return torch.nn.Sequential(unit(), torch.nn.LayerNorm(5), unit(), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def sharded_by_pytorch(model):
    for unit in model:
        fully_shard(unit)
    return list(fully_shard(model).parameters())


def trained(model, parameters, batch):
    """The loss before each of some steps of AdamW."""
    optimizer, losses = torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.1), []
    for _ in range(STEPS):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def of_rank(rank, world, shard):
    warnings.simplefilter("ignore")
    model = net().cuda()
    return trained(model, shard(model), BATCH.chunk(world)[rank].cuda())


@pytest.mark.parametrize("world", [1, 2, 3])
def test_it_trains_like_one_process(mini_fsdp, world):
    alone = net()
    expected = trained(alone, alone.parameters(), BATCH)
    losses = run_ranks(of_rank, world, args=(mini_fsdp,)).results
    assert [sum(step) / world for step in zip(*losses, strict=True)] == pytest.approx(expected, rel=1e-4)


def test_it_trains_like_fully_shard(mini_fsdp):
    ours, theirs = (run_ranks(of_rank, 2, args=(shard,)).results for shard in (mini_fsdp, sharded_by_pytorch))
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
