"""PyTorch's own parallel libraries, unchanged: their numbers are those of one process, their collectives are counted."""

from collections import Counter

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.nn.functional
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import gpulab
from gpulab.collectives import run_ranks
from tests.collectives.libraries import WIDTH, batch, collectives, gradients_of_one_process, net, quiet, same

# ---- DistributedDataParallel


def test_ddp_with_parameters_that_no_batch_uses(world):
    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = net(1), net(1)

        def forward(self, x):
            return self.used(x)

    def train(rank, world):
        quiet()
        model = DistributedDataParallel(Both().cuda(), find_unused_parameters=True)
        model(batch(rank).cuda()).sum().backward()
        return [p.grad is None for p in model.parameters()], model.module.used[0].bias.grad

    unused, bias = zip(*run_ranks(train, world).results)
    assert set(map(tuple, unused)) == {(False, False, True, True)} and all(torch.equal(b, bias[0]) for b in bias)


def test_ddp_without_synchronisation_for_a_micro_batch(world):
    def train(rank, world):
        quiet()
        model = DistributedDataParallel(net().cuda())
        with model.no_sync():
            model(batch(rank).cuda()).square().mean().backward()
        model(batch(rank).cuda()).square().mean().backward()
        return [p.grad / 2 for p in model.parameters()]

    run = run_ranks(train, world)
    assert all(same(grads, gradients_of_one_process(world)) for grads in run.results)
    assert collectives(run)["all_reduce"] == 1


def test_ddp_with_a_hook_that_sends_halves(world):
    def train(rank, world):
        quiet()
        model = DistributedDataParallel(net().cuda())
        model.register_comm_hook(None, bf16_compress_hook)
        model(batch(rank).cuda()).square().mean().backward()
        return [p.grad for p in model.parameters()]

    run = run_ranks(train, world)
    assert all(
        torch.allclose(g, d, atol=1e-2) for g, d in zip(run.results[0], gradients_of_one_process(world), strict=True)
    )
    assert [e.dtype for e in run.journal if e.operation == "all_reduce"] == ["bfloat16"]


def test_an_optimizer_that_each_rank_holds_a_share_of(world):
    def train(rank, world):
        quiet()
        model = DistributedDataParallel(net().cuda())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        model(batch(rank).cuda()).square().mean().backward()
        optimizer.step()
        return [p.detach() for p in model.parameters()]

    expected = [p.detach() - 0.1 * g for p, g in zip(net().parameters(), gradients_of_one_process(world), strict=True)]
    assert all(same(parameters, expected) for parameters in run_ranks(train, world).results)


# ---- fully_shard


def sharded(mesh=None, **options):
    model = net().cuda()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def test_fully_shard(world):
    def train(rank, world):
        quiet()
        model = sharded()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
        for _ in range(2):
            optimizer.zero_grad()
            with gpulab.observe() as seen:
                model(batch(rank).cuda()).square().mean().backward()
                torch.cuda.synchronize()
            optimizer.step()
        return (
            [p.grad.full_tensor() for p in model.parameters()],
            Counter(c.operation for c in seen.collectives),
            seen.races,
        )

    for grads, counted, races in run_ranks(train, world).results:
        assert same(grads, gradients_of_one_process(world)) and not races
        # Gathered for the forward pass and, but for the last layer, again for the backward pass.
        assert counted == {"all_gather": 3 + 3, "reduce_scatter": 3} or counted == {
            "all_gather": 3 + 2,
            "reduce_scatter": 3,
        }


def test_a_model_made_on_meta_is_given_memory_for_its_share_alone(world):
    def build(rank, world):
        quiet()
        with torch.device("meta"):
            layer = torch.nn.Linear(8 * world, 512, bias=False)
        fully_shard(layer)
        layer.to_empty(device="cuda")
        most = torch.cuda.max_memory_allocated()
        torch.nn.init.ones_(layer.weight)
        layer(torch.ones(2, 8 * world, device="cuda")).sum().backward()
        return most, layer.weight.to_local().is_cuda, layer.weight.grad.full_tensor().sum().item()

    assert run_ranks(build, world).results == [(8 * 512 * 4, True, 2 * 8 * world * 512)] * world


def test_fully_shard_in_bfloat16_sends_half_the_bytes():
    def train(rank, world):
        quiet()
        model = sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
        model(batch(rank).cuda()).square().mean().backward()

    run = run_ranks(train, 2)
    assert {(e.operation, e.dtype) for e in run.journal} == {("all_gather", "bfloat16"), ("reduce_scatter", "float32")}


def test_fully_shard_over_replicas():
    def train(rank, world):
        quiet()
        model = sharded(mesh=init_device_mesh("cuda", (2, 2), mesh_dim_names=("replica", "shard")))
        model(batch(rank).cuda()).square().mean().backward()
        return [p.grad.full_tensor() for p in model.parameters()]

    run = run_ranks(train, 4)
    assert all(same(grads, gradients_of_one_process(4)) for grads in run.results)
    assert {e.ranks for e in run.journal if e.operation == "all_reduce"} == {(0, 2), (1, 3)}


# ---- DTensor and tensor parallelism


def test_tensor_parallelism(world):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))

    def run_it(rank, world):
        quiet()
        mesh = init_device_mesh("cuda", (world,))
        model = parallelize_module(plain.cuda(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        with gpulab.observe() as seen:
            out = model(torch.ones(4, 16, device="cuda"))
            out.sum().backward()
        return out, model[0].weight.grad.full_tensor(), [c.operation for c in seen.collectives]

    plain(torch.ones(4, 16)).sum().backward()
    expected = plain(torch.ones(4, 16))
    for out, grad, operations in run_ranks(run_it, world).results:
        assert torch.allclose(out, expected, atol=1e-5) and torch.allclose(grad, plain[0].weight.grad, atol=1e-5)
        assert operations == ["all_reduce"]


def test_tensor_parallelism_inside_fully_shard():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16))

    def train(rank, world):
        quiet()
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "tensor"))
        model = parallelize_module(plain.cuda(), mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["data"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        model(torch.full((4, 16), 1.0 + mesh.get_coordinate()[0], device="cuda")).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        grads = [p.grad.full_tensor() for p in model.parameters()]
        optimizer.step()
        return grads, {str(p.device.type) for p in model.parameters()}

    sum(plain(torch.full((4, 16), 1.0 + i)).square().mean() / 2 for i in range(2)).backward()
    expected = [p.grad for p in plain.parameters()]
    assert all(same(grads, expected) and where == {"cuda"} for grads, where in run_ranks(train, 4).results)


def test_distributed_tensors(world):
    def run_it(rank, world):
        quiet()
        mesh = init_device_mesh("cuda", (world,))
        x = torch.arange(32.0 * world).reshape(4 * world, 8)
        d = distribute_tensor(x.cuda(), mesh, [Shard(0)])
        r = d.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()])
        assert isinstance(d, DTensor) and d.to_local().is_cuda and tuple(d.to_local().shape) == (4, 8)
        return torch.equal((d @ d.t()).full_tensor().cpu(), x @ x.t()), torch.equal(r.to_local().cpu(), x)

    assert run_ranks(run_it, world).results == [(True, True)] * world


def test_a_mesh_of_two_dimensions():
    def run_it(rank, world):
        quiet()
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "tensor"))
        x, y = torch.full((2,), float(rank), device="cuda"), torch.full((2,), float(rank), device="cuda")
        dist.all_reduce(x, group=mesh["tensor"].get_group())
        dist.all_reduce(y, group=mesh["data"].get_group())
        return mesh.get_coordinate(), x[0].item(), y[0].item()

    run = run_ranks(run_it, 4)
    assert [tuple(c) for c, _, _ in run.results] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [(x, y) for _, x, y in run.results] == [(1, 2), (1, 4), (5, 2), (5, 4)]
    assert sorted(e.ranks for e in run.journal) == [(0, 1), (0, 2), (1, 3), (2, 3)]


# ---- pipelines


@pytest.mark.parametrize("schedule", [Schedule1F1B, ScheduleGPipe])
def test_a_pipeline(world, schedule):
    def train(rank, world):
        quiet()
        layers = net(depth=world)[2 * rank : 2 * rank + 2].cuda()
        stage = PipelineStage(layers, rank, world, torch.device("cuda", rank))
        steps = schedule(stage, n_microbatches=4, loss_fn=lambda y, t: (y - t).square().mean())
        steps.step(
            *([batch(0).cuda()] if rank == 0 else []),
            **({"target": torch.zeros(8, WIDTH).cuda()} if rank == world - 1 else {}),
        )
        return [p.grad for p in layers.parameters()]

    whole = net(depth=world)
    whole(batch(0)).square().mean().backward()
    expected = [p.grad for p in whole.parameters()]
    for rank, grads in enumerate(run_ranks(train, world).results):
        assert same(grads, expected[2 * rank : 2 * rank + 2])


# ---- checkpoints


def test_a_checkpoint_of_a_sharded_model(world, tmp_path):
    def save_and_load(rank, world):
        quiet()
        model, other = sharded(), fully_shard(net(seed=1).cuda())
        dcp.save({"model": model.state_dict()}, checkpoint_id=tmp_path)
        state = {"model": other.state_dict()}
        dcp.load(state, checkpoint_id=tmp_path)
        other.load_state_dict(state["model"])
        return [p.full_tensor() for p in other.parameters()]

    expected = [p.detach() for p in net().parameters()]
    assert all(same(parameters, expected) for parameters in run_ranks(save_and_load, world).results)


def test_a_checkpoint_of_four_ranks_is_loaded_by_two(tmp_path):
    def save(rank, world):
        quiet()
        dcp.save({"model": sharded().state_dict()}, checkpoint_id=tmp_path)

    def load(rank, world):
        quiet()
        model = fully_shard(net(seed=1).cuda())
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=tmp_path)
        model.load_state_dict(state["model"])
        return [p.full_tensor() for p in model.parameters()]

    run_ranks(save, 4)
    expected = [p.detach() for p in net().parameters()]
    assert all(same(parameters, expected) for parameters in run_ranks(load, 2).results)


# ---- torch.distributed.nn


def test_collectives_with_gradients(world):
    def run_it(rank, world):
        quiet()
        x = torch.full((3,), float(rank + 1), device="cuda", requires_grad=True)
        (torch.distributed.nn.functional.all_reduce(x) * (rank + 1)).sum().backward()
        return x.grad

    total = world * (world + 1) / 2
    assert all(torch.equal(grad, torch.full((3,), total)) for grad in run_ranks(run_it, world).results)
