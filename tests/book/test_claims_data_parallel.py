"""Tests that settle the claims of the chapter "Data parallelism in depth", one per claim."""

import os

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DistributedSampler

from gpulab.collectives import RankError, run_ranks
from gpulab.collectives.network import Network
from gpulab.collectives.network.overlap import Link, overlap

MIB = 1 << 20
SAMPLE = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
{missing}
local_rank = int(os.environ["LOCAL_RANK"])
sampler = DistributedSampler(list(range(4)), num_replicas=1, rank=0, shuffle=True)
dataloader = DataLoader(list(range(4)), sampler=sampler, batch_size=2)
"""


def test_the_sample_lacks_three_imports(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    imports = {
        "os": "import os\n",
        "DistributedSampler": "from torch.utils.data import DistributedSampler\n",
        "DataLoader": "from torch.utils.data import DataLoader\n",
    }
    given = ""
    for name, line in imports.items():
        with pytest.raises(NameError, match=f"'{name}'"):
            exec(SAMPLE.format(missing=given), {})
        given += line
    exec(SAMPLE.format(missing=given), {})


def layers(count: int, width: int = 512) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(count)))


def two_steps(rank, world, options, count):
    ddp = DDP(layers(count), **options)
    for _ in range(2):
        loss = ddp(torch.ones(4, 512)).sum()
        dist.barrier()
        loss.backward()


def buckets_mib(options: dict) -> list[list[float]]:
    """Of each step of PyTorch's own DDP with 30 MiB of gradients, the sizes of its all-reduces in MiB."""
    steps = []
    for entry in run_ranks(two_steps, 1, args=(options, 30), card="off", backend="gloo").journal:
        if entry.operation == "barrier":
            steps.append([])
        elif entry.operation == "all_reduce" and steps:
            steps[-1].append(entry.bytes / MIB)
    return steps


def test_the_first_bucket_is_1_mib_by_default_and_not_where_25_is_passed():
    assert buckets_mib({}) == [[30], [1, 25, 4]]
    assert buckets_mib({"bucket_cap_mb": 25}) == [[30], [25, 5]]


def fourth_step(rank, world, options, hook, variables):
    os.environ.update(variables)
    ddp = DDP(layers(12), **options)
    if hook is not None:
        ddp.register_comm_hook(None, hook)
    for _ in range(4):
        loss = ddp(torch.ones(4, 512)).sum()
        dist.barrier()
        loss.backward()


@pytest.mark.parametrize(
    "options, hook, variables, mib",
    [
        ({}, None, {}, [1, 11]),
        ({"gradient_as_bucket_view": True}, None, {}, [1, 11]),
        ({"bucket_cap_mb_list": [8, 3, 1]}, None, {}, [8, 3, 1]),
        ({"bucket_cap_mb_list": [1, 4]}, None, {}, [1, 4, 4, 3]),
        ({}, None, {"DDP_SET_LAST_BUCKET_CAP": "1"}, [11, 1]),
        ({}, fp16_compress_hook, {}, [0.5, 5.5]),
    ],
)
def test_options_divide_and_halve_what_a_later_step_sends_as_the_page_says(options, hook, variables, mib):
    run = run_ranks(fourth_step, 1, args=(options, hook, variables), card="off", backend="gloo")
    *_, last = (e for e in run.journal if e.operation == "barrier")
    assert [e.bytes / MIB for e in run.journal if e.order > last.order] == mib


def ready_when_the_first_bucket_left(rank, world, cap):
    """How many of the gradients were there, in the second step, of PyTorch's own DDP."""
    model, ready, seen = layers(8, width=64), [], []
    ddp = DDP(model, bucket_cap_mb=cap)

    def left(state, bucket):
        seen.append(len(ready))
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: bucket.buffer())

    ddp.register_comm_hook(None, left)
    for number, layer in enumerate(model):
        layer.register_full_backward_hook(lambda *_, number=number: ready.append(number))
    for _ in range(2):
        ready.clear()
        seen.clear()
        ddp(torch.ones(4, 64, requires_grad=True)).sum().backward()
    return seen[0]


def test_a_bucket_of_everything_leaves_after_the_last_gradient_and_a_small_one_early():
    early, late = (
        run_ranks(ready_when_the_first_bucket_left, 2, args=(cap,), card="off", backend="gloo").results[0]
        for cap in (1 / 64, 1)
    )
    assert early <= 2 and late >= 7


def best_bucket(mib: int, layer_us: float, alpha_us: float) -> int:
    """MiB of the bucket with the shortest step, of gradients in layers of 1 MiB that sixteen ranks sum at 50 GB/s."""
    link = Link(alpha_us, 50e3, 16)
    steps = {size: overlap(mib, layer_us, MIB, size * MIB, link).step_us for size in (2**k for k in range(11))}
    return min(steps, key=steps.get)


SHORT, LONG = 5, 160
"""Microseconds of backward pass for a MiB, whose bytes take the link 39."""


def test_where_the_network_binds_larger_buckets_win_and_where_arithmetic_binds_smaller_ones():
    assert best_bucket(1024, LONG, 60) == 1 < 10 < 50 < best_bucket(1024, SHORT, 60)


def test_the_best_bucket_grows_as_the_root_of_the_model_where_the_network_binds_and_not_where_arithmetic_does():
    sizes = (256, 1024, 4096)
    assert [best_bucket(mib, SHORT, 60) for mib in sizes] == [64, 128, 256]
    assert {best_bucket(mib, LONG, 60) for mib in sizes} == {1}
    assert best_bucket(1024, SHORT, 240) == 2 * best_bucket(1024, SHORT, 60)


def late(rank, world):
    torch.cuda._sleep(rank * 2_000_000)
    dist.all_reduce(torch.ones(4, device="cuda"))


def test_a_late_rank_makes_the_others_collective_long():
    (entry,) = run_ranks(late, 2).journal
    waited, did_not = (entry.end_us - ready for ready in entry.ready_us)
    assert waited > 500 and did_not < 100


def gathered(rank, world):
    mine = torch.ones(1000)
    dist.gather(mine, [torch.empty(1000) for _ in range(world)] if rank == 0 else None)


def summed(rank, world):
    dist.all_reduce(torch.tensor([1000.0, 1000.0], dtype=torch.float64))


def test_a_gather_makes_rank_0_receive_everything_and_an_all_reduce_two_numbers():
    (gather,) = run_ranks(gathered, 4, card="off", backend="gloo").journal
    (total,) = run_ranks(summed, 4, card="off", backend="gloo").journal
    assert gather.operation == "gather" and gather.bytes == 4 * 4000 and total.bytes == 16


def barrier_for_a_look(rank, world):
    """Over gloo itself, which says nothing."""
    dist.barrier()
    if rank:
        dist.all_reduce(torch.ones(1))
    dist.barrier()


def test_a_barrier_of_gloo_hangs_where_a_rank_took_another_way():
    with pytest.raises(RankError, match="did not finish within"):
        run_ranks(barrier_for_a_look, 2, card="off", backend="gloo", transport="gloo", timeout_s=3)


def barrier_as_for_nccl(rank, world):
    """PyTorch's barrier over NCCL is an all-reduce of one float32 on the same communicator."""

    def barrier():
        dist.all_reduce(torch.zeros(1, device="cuda"))
        torch.cuda.synchronize()

    barrier()
    loss = torch.full((1,), 2.0, device="cuda")
    if rank:
        dist.all_reduce(loss)
    barrier()
    print(f"rank {rank} goes on")


def test_a_barrier_that_is_an_all_reduce_lets_rank_0_go_on_and_leaves_rank_1_alone():
    lines = []
    run = run_ranks(barrier_as_for_nccl, 2, check=False, show=lambda rank, line: lines.append(line))
    assert lines == ["rank 0 goes on"]
    assert "deadlock: rank 1 waits in all_reduce" in str(run.error) and len(run.journal) == 2


def test_without_set_epoch_every_epoch_has_the_same_order_and_ten_samples_are_twelve():
    data = list(range(10))
    samplers = [DistributedSampler(data, num_replicas=4, rank=rank, seed=7) for rank in range(4)]
    first = [list(sampler) for sampler in samplers]
    assert first == [list(sampler) for sampler in samplers]
    assert sum(map(len, first)) == 12 and {i for row in first for i in row} == set(data)
    for sampler in samplers:
        sampler.set_epoch(1)
    assert [list(sampler) for sampler in samplers] != first


def dropped(rank, world):
    torch.manual_seed(42)
    return torch.nn.functional.dropout(torch.ones(64), 0.5).tolist()


def test_one_seed_in_all_ranks_drops_the_same_units():
    one, other = run_ranks(dropped, 2, card="off", backend="gloo").results
    assert one == other


def test_four_gpus_reach_what_the_link_and_the_overlap_allow():
    """1.1 billion gradients in bf16, a step of 100 ms of which 60 are backward."""
    nvlink = Network.for_ranks(4, "DGX H100").duration_us("all_reduce", int(2.2e9), 4) / 1e3
    slow_ms = 2 * 3 / 4 * 2.2e9 / (25e9 / 8) * 1e3
    hidden = max(0.05 * nvlink, nvlink - 0.95 * 60)
    assert 100 / (100 + hidden) > 0.99 and 100 / (100 + slow_ms) < 0.1
