"""DistributedDataParallel, unchanged. An audit tries PyTorch's other parallel libraries."""

import pytest
from torch.nn.parallel import DistributedDataParallel

import gpulab
from gpulab.collectives import run_ranks
from tests.collectives.libraries import WIDTH, batch, gradients_of_one_process, net, quiet, same


@pytest.mark.parametrize(
    "options", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}]
)
def test_ddp(world, options):
    def train(rank, world):
        quiet()
        model = DistributedDataParallel(net().cuda(), device_ids=[rank], bucket_cap_mb=0.006, **options)
        for _ in range(2):  # buckets are rebuilt after the first
            model.zero_grad()
            with gpulab.observe() as seen:
                model(batch(rank).cuda()).square().mean().backward()
        return (
            [p.grad for p in model.parameters()],
            [c.bytes for c in seen.collectives if c.operation == "all_reduce"],
            seen.races,
        )

    run = run_ranks(train, world)
    for grads, sizes, races in run.results:
        assert same(grads, gradients_of_one_process(world)) and not races
        # Each bucket once; the map of unused parameters, one int32 each, besides.
        assert sum(sizes) - (24 if "find_unused_parameters" in options else 0) == 3 * (WIDTH * WIDTH + WIDTH) * 4
        # Of a static graph PyTorch rebuilds no buckets.
        assert (len(sizes) > 1) != ("static_graph" in options)
