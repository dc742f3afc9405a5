"""Ranks' clocks meet at collectives: what overlaps, what waits, what races."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import gpulab
from gpulab.collectives import Network, run_ranks

WIDTH, DEPTH = 512, 6
LATE_CYCLES = 100_000


class Slow:
    """So slow that communication is about as long as the backward pass."""

    def duration_us(self, operation, nbytes, ranks):
        return 5 + nbytes / 60_000


class Fast:
    """So fast that a layer's weights come while the layer before computes."""

    def duration_us(self, operation, nbytes, ranks):
        return 1 + nbytes / 200_000


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)]).cuda()


def measured(model, step, x):
    """(when the backward pass ends, when all ends, microseconds of communication, of those hidden), and the races."""
    step(model, x)
    torch.cuda.synchronize()
    with gpulab.observe() as seen:
        step(model, x)
        torch.cuda.synchronize()
    own = {c.stream for c in seen.collectives}
    begin = seen.kernels[0].start_us
    backward = max(k.end_us for k in seen.kernels if k.stream not in own and "mm" in k.name)
    hidden = sum(seen.hidden_us(c) for c in seen.collectives)
    return {
        "backward": backward - begin,
        "all": max(k.end_us for k in seen.kernels) - begin,
        "communication": sum(c.us for c in seen.collectives),
        "hidden": hidden,
        "races": len(seen.races),
        "count": len(seen.collectives),
    }


def after_backward(rank, world):
    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()
        for work in [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]:
            work.wait()

    return measured(net(), step, torch.ones(2048, WIDTH, device="cuda"))


def during_backward(rank, world, waits=True):
    model, works = net(), []
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: works.append(dist.all_reduce(p.grad, async_op=True)))

    def step(model, x):
        model.zero_grad()
        works.clear()
        model(x).sum().backward()
        if waits:
            for work in works:
                work.wait()
        else:
            next(model.parameters()).grad.add_(1)

    return measured(model, step, torch.ones(2048, WIDTH, device="cuda"))


def blocking_in_backward(rank, world):
    model = net()
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))

    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()

    return measured(model, step, torch.ones(2048, WIDTH, device="cuda"))


def ddp(rank, world, megabytes):
    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()

    model, x = (
        DistributedDataParallel(net(), bucket_cap_mb=megabytes, gradient_as_bucket_view=True),
        torch.ones(2048, WIDTH, device="cuda"),
    )
    step(model, x)
    return measured(model, step, x)


def fsdp(rank, world):
    model = net()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)

    def step(model, x):
        model.zero_grad()
        model(x).sum().backward()

    return measured(model, step, torch.ones(2048, WIDTH, device="cuda"))


def test_communication_after_the_backward_pass_hides_nothing(world):
    for found in run_ranks(after_backward, world, network=Slow()).results:
        assert found["hidden"] == 0 and found["count"] == DEPTH and not found["races"]
        assert found["all"] == pytest.approx(found["backward"] + found["communication"], rel=0.1)


def test_communication_during_the_backward_pass_is_hidden(world):
    after, during = (run_ranks(f, world, network=Slow()).results for f in (after_backward, during_backward))
    for late, early in zip(after, during, strict=True):
        assert early["communication"] == pytest.approx(late["communication"]) and not early["races"]
        assert early["hidden"] > 0.5 * early["communication"] and early["all"] < late["all"] - 0.8 * early["hidden"]


def test_a_blocking_collective_in_a_hook_hides_nothing():
    for found in run_ranks(blocking_in_backward, 2, network=Slow()).results:
        assert found["hidden"] == 0 and found["all"] > found["communication"]


def test_a_wait_that_is_forgotten_is_a_race(world):
    for found in run_ranks(during_backward, world, args=(False,), network=Slow()).results:
        assert found["races"] and found["hidden"] > 0


@pytest.mark.audit
def test_buckets_of_ddp_overlap_and_their_size_has_a_best():
    times = [run_ranks(ddp, 2, args=(size,), network=Slow()).results[0] for size in (0.5, 2, 100)]
    assert [found["count"] for found in times] == [DEPTH, DEPTH // 2 + DEPTH % 2, 1]
    assert times[0]["hidden"] > times[2]["hidden"] == 0 and times[1]["all"] < times[2]["all"]


def test_fully_shard_gathers_ahead():
    for found in run_ranks(fsdp, 2, network=Fast()).results:
        assert found["hidden"] > 0.3 * found["communication"] and not found["races"]


def test_a_collective_starts_when_the_last_rank_is_ready():
    def late(rank, world):
        x = torch.ones(1 << 20, device="cuda")
        if rank == 1:
            torch.cuda._sleep(LATE_CYCLES)
        with gpulab.observe() as seen:
            dist.all_reduce(x)
        (collective,) = seen.collectives
        return collective.ready_us, collective.start_us, collective.end_us, seen.kernels[-1].start_us

    (early_ready, start, end, seen_from), (late_ready, *same, _) = run_ranks(late, 2).results
    assert late_ready - early_ready > 20 and [start, end] == same and start == late_ready
    assert seen_from == early_ready


def test_collectives_of_one_group_follow_one_another():
    def two(rank, world):
        x, y = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
        for work in [dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)]:
            work.wait()

    first, second = run_ranks(two, 2).journal
    assert second.start_us == first.end_us > max(second.ready_us)


def test_a_collective_takes_what_the_network_says():
    def one(rank, world):
        dist.all_reduce(torch.ones(1 << 20, device="cuda"))

    network = Network.of("DGX A100")
    (entry,) = run_ranks(one, 4, network=network).journal
    assert entry.us == pytest.approx(network.duration_us("all_reduce", 4 << 20, 4))


def test_what_nobody_has_waited_for_by_the_end_of_a_block_has_no_end():
    def posted(rank, world):
        x = torch.ones(4, device="cuda")
        with gpulab.observe() as seen:
            work = dist.all_reduce(x, async_op=True)
        (before,) = seen.collectives
        work.wait()
        return before.end_us, before.us, seen.beside(before), seen.collectives[0].end_us

    assert run_ranks(posted, 2).results == [(None, None, (), None)] * 2


def test_a_synchronisation_of_the_device_waits_for_communicators():
    def synchronised(rank, world):
        x = torch.ones(1 << 22, device="cuda") * (rank + 1)
        with gpulab.observe() as seen:
            dist.all_reduce(x, async_op=True)
            torch.cuda.synchronize()
        return seen.collectives[0].end_us == seen.waits[-1].end_us, x[0].item()

    assert run_ranks(synchronised, 2).results == [(True, 3.0)] * 2


def test_the_table_of_a_rank_tells_of_its_collectives():
    def one(rank, world):
        x = torch.ones(1 << 20, device="cuda")
        work = dist.all_reduce(x, async_op=True)
        torch.ones(1 << 20, device="cuda") * 2
        work.wait()
        dist.all_reduce(x, async_op=True)

    table = run_ranks(one, 2).seen[0].table()
    assert "2 collectives of 8.0 MiB" in table and "dist.all_reduce(x, async_op=True)" in table
    assert "under kernels" in table and "nobody waited" in table
