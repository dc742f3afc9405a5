"""``nn.SyncBatchNorm`` among ranks: BatchNorm over the whole batch, forward and backward."""

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gpulab.collectives import run_ranks

CHANNELS = 3


def batch(rank, shape=(4, CHANNELS, 5)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank)) * (rank + 1) + rank


def of_rank(rank, world, dtype=torch.float32, options=None, layout=torch.contiguous_format, shape=(4, CHANNELS, 5)):
    norm = nn.SyncBatchNorm(CHANNELS, **(options or {})).cuda()
    x = batch(rank, shape).to("cuda", dtype).contiguous(memory_format=layout).requires_grad_()
    out = norm(x)
    (out.float() * batch(rank + 10, shape).cuda()).sum().backward()
    weights = [p.grad for p in norm.parameters()]
    return out.detach(), x.grad, norm.running_mean, norm.running_var, *weights


def of_whole(world, dtype=torch.float32, options=None, shape=(4, CHANNELS, 5)):
    norm = nn.BatchNorm1d(CHANNELS, **(options or {})) if len(shape) == 3 else nn.BatchNorm2d(CHANNELS)
    x = torch.cat([batch(rank, shape).to(dtype) for rank in range(world)]).float().requires_grad_()
    out = norm(x)
    (out * torch.cat([batch(rank + 10, shape) for rank in range(world)])).sum().backward()
    weights = [p.grad for p in norm.parameters()]
    return out.detach(), x.grad, norm.running_mean, norm.running_var, *weights


def check(results, whole, **tolerance):
    rows = len(whole[0]) // len(results)
    for rank, (out, grad, mean, var, *_) in enumerate(results):
        mine = slice(rank * rows, (rank + 1) * rows)
        torch.testing.assert_close(out.float(), whole[0][mine], **tolerance)
        torch.testing.assert_close(grad.float(), whole[1][mine], **tolerance)
        for got, due in ((mean, whole[2]), (var, whole[3])):
            torch.testing.assert_close(got, due, **tolerance)
    for got, due in zip(zip(*(result[4:] for result in results), strict=True), whole[4:], strict=True):
        torch.testing.assert_close(sum(got), due, **tolerance)


@pytest.mark.parametrize("world", [2, 3])
def test_values_and_gradients_are_those_of_the_whole_batch(world):
    check(run_ranks(of_rank, world).results, of_whole(world), rtol=1e-4, atol=1e-5)


def test_without_weights_too():
    options = {"affine": False}
    args = (torch.float32, options)
    check(run_ranks(of_rank, 2, args=args).results, of_whole(2, options=options), rtol=1e-4, atol=1e-5)


def test_images_in_channels_last_too():
    shape = (2, CHANNELS, 4, 4)
    args = (torch.float32, None, torch.channels_last, shape)
    check(run_ranks(of_rank, 2, args=args).results, of_whole(2, shape=shape), rtol=1e-4, atol=1e-5)


def test_statistics_of_half_precision_are_in_single_precision():
    results = run_ranks(of_rank, 2, args=(torch.bfloat16,)).results
    check(results, of_whole(2, torch.bfloat16), rtol=2e-2, atol=2e-2)
    assert results[0][0].dtype == torch.bfloat16 and results[0][2].dtype == torch.float32


def test_ranks_may_have_batches_of_different_sizes():
    def uneven(rank, world):
        norm = nn.SyncBatchNorm(CHANNELS).cuda()
        norm(batch(rank)[: 1 + rank].cuda())
        return norm.running_mean, norm.running_var

    norm = nn.BatchNorm1d(CHANNELS)
    norm(torch.cat([batch(0)[:1], batch(1)[:2]]))
    for mean, var in run_ranks(uneven, 2).results:
        torch.testing.assert_close(mean, norm.running_mean)
        torch.testing.assert_close(var, norm.running_var)


def test_a_converted_model_trains_under_ddp_as_on_the_whole_batch(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the host's convolutions have none

    def model():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv1d(CHANNELS, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 1, 3))

    def trained(net, x):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        return [p.detach() for p in net.parameters()]

    def rank_trains(rank, world):
        return trained(
            DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model()).cuda()), batch(rank).cuda()
        )

    due = trained(model(), torch.cat([batch(rank) for rank in range(2)]))
    for got in run_ranks(rank_trains, 2).results:
        for one, other in zip(got, due, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_each_step_of_it_is_one_kernel():
    run = run_ranks(of_rank, 2)
    names = [kernel.name for kernel in run.seen[0].kernels if kernel.name.startswith("aten.batch_norm")]
    assert sorted(names) == sorted(
        f"aten.batch_norm_{name}"
        for name in ("stats", "gather_stats_with_counts", "elemt", "backward_reduce", "backward_elemt")
    )
