"""What each rank keeps, by kind: in its Observation."""

import warnings

import pytest
import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpulab.collectives import run_ranks
from gpulab.memory import track

WIDTH, DEPTH = 64, 4
WEIGHTS = DEPTH * WIDTH * WIDTH * 4


def step(wrap):
    def train(rank, world):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = wrap(torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)]).cuda())
        optimizer = torch.optim.AdamW(model.parameters())
        with track(model, optimizer) as held:
            model(torch.ones(8, WIDTH, device="cuda")).sum().backward()
            optimizer.step()
        return held.now.total

    return train


def replicated(model):
    return DistributedDataParallel(model)


def sharded(model):
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


@pytest.mark.parametrize(("wrap", "shared_by"), [(replicated, 1), (sharded, None)])
def test_a_rank_holds_its_share(wrap, shared_by, world):
    run = run_ranks(step(wrap), world)
    for total, seen in zip(run.results, run.seen, strict=True):
        (held,) = seen.held
        share = WEIGHTS // (shared_by or world)
        assert held.end["parameters"] == held.end["gradients"] == share
        assert held.end["optimizer"] == pytest.approx(2 * share, abs=4 * DEPTH)
        assert sum(held.end.values()) == total and sum(held.peak.values()) >= total
        assert held.timeline and ":" in held.peak_at


def test_the_record_survives_the_way_back():
    (seen, _) = run_ranks(step(replicated), 2).seen
    assert type(seen).from_dict(seen.to_dict()).held == seen.held and seen.held
