"""A few ranks of a large job: its groups, shards, collectives, bytes and times, without its others."""

import warnings
from collections import Counter

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from gpulab.collectives import Network, RankError, run_ranks, structure


def block():
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()


def three_dimensions(rank, world):
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cuda", (2, 4, 8), mesh_dim_names=("pp", "dp", "tp"))
    model = parallelize_module(block(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    model(torch.randn(4, 64, device="cuda")).sum().backward()
    groups = {name: dist.get_process_group_ranks(mesh[name].get_group()) for name in ("pp", "dp", "tp")}
    return (
        tuple(mesh.get_coordinate()),
        groups,
        {name: tuple(p.to_local().shape) for name, p in model.named_parameters()},
    )


def test_a_mesh_of_64_ranks():
    run = structure(three_dimensions, 64, ranks=(0, 37))
    (first, _, shapes), (coordinate, groups, same) = run.results
    assert first == (0, 0, 0) and coordinate == (1, 0, 5)
    assert groups == {"pp": [5, 37], "dp": [37, 45, 53, 61], "tp": list(range(32, 40))}
    assert shapes == same == {"0.weight": (8, 64), "0.bias": (8,), "2.weight": (16, 32), "2.bias": (16,)}
    for seen in run.seen:
        assert Counter(c.operation for c in seen.collectives)["reduce_scatter"] == 1


def test_bytes_and_times_are_those_of_the_whole_job():
    def train(rank, world):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = block()
        fully_shard(model)
        model(torch.ones(4, 64, device="cuda")).sum().backward()
        torch.cuda.synchronize()

    network = Network.of("DGX H100")
    whole, part = run_ranks(train, 4, network=network), structure(train, 4, ranks=(2,), network=network)
    facts = [
        [(c.operation, c.bytes, c.ranks, c.start_us, c.end_us) for c in seen.collectives]
        for seen in (whole.seen[2], part.seen[0])
    ]
    assert facts[0] == facts[1] and facts[0]


def test_every_collective_has_an_answer():
    def every(rank, world):
        x, n = torch.ones(world, device="cuda"), world
        dist.all_reduce(x)
        out = torch.empty(n * n, device="cuda")
        dist.all_gather_into_tensor(out, x)
        dist.reduce_scatter_tensor(x, out)
        dist.all_to_all_single(torch.empty_like(x), x)
        dist.broadcast(x, 3)
        dist.reduce(x, 3)
        dist.gather(x, [torch.empty_like(x) for _ in range(n)] if rank == 3 else None, 3)
        dist.scatter(x, [torch.ones_like(x) for _ in range(n)] if rank == 3 else None, 3)
        dist.send(x, 3 - rank)
        dist.recv(x, 3 - rank)
        objects = [None] * n
        dist.all_gather_object(objects, "mine")
        dist.all_reduce(x, group=dist.new_group([0, 3]))
        return objects[-1]

    run = structure(every, 64, ranks=(0, 3))
    assert run.results == ["mine", "mine"] and run.seen[0].collectives[0].ranks == tuple(range(64))


def test_a_model_for_which_no_machine_is_large_enough():
    def step(rank, world):
        warnings.simplefilter("ignore")
        with torch.device("cuda"):
            model = torch.nn.Sequential(
                *[torch.nn.Linear(16384, 16384, bias=False, dtype=torch.bfloat16) for _ in range(8)]
            )
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        model(torch.empty(8, 16384, device="cuda", dtype=torch.bfloat16)).sum().backward()
        return sum(p.to_local().numel() for p in model.parameters())

    run = structure(step, 64, ranks=(5,), card="ghost:H100")
    assert run.results == [8 * 16384 * 16384 // 64]
    assert {c.bytes for c in run.seen[0].collectives} == {16384 * 16384 * 2}


def test_ddp_on_a_ghost():
    def step(rank, world):
        warnings.simplefilter("ignore")
        model = DistributedDataParallel(torch.nn.Linear(4096, 4096, device="cuda"))
        model(torch.empty(8, 4096, device="cuda")).sum().backward()

    run = structure(step, 64, card="ghost:H100")
    assert [c.bytes for c in run.seen[0].collectives if c.operation == "all_reduce"] == [(4096 * 4096 + 4096) * 4]


def test_what_a_rank_raises_is_said():
    with pytest.raises(RankError, match="rank 9 raised ZeroDivisionError"):
        structure(lambda rank, world: 1 // (rank - 9), 64, ranks=(0, 9))


@pytest.mark.parametrize("ranks", [(), (64,), (1, 1)])
def test_ranks_that_such_a_job_has_not_are_refused(ranks):
    with pytest.raises(ValueError, match="of a job of 64"):
        structure(three_dimensions, 64, ranks=ranks)
