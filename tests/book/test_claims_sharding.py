"""Tests that settle what the chapter "Sharded data parallelism: ZeRO and FSDP" says: its claims, and what no cell of it shows."""

import functools
import inspect

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from gpulab.collectives import RankError, run_ranks

LAYERS, WIDTH = 4, 32
MODEL = LAYERS * WIDTH * WIDTH * 4
GLOO = {"card": "off", "backend": "gloo"}


def layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


def sharded(**options) -> torch.nn.Module:
    model, mesh = layers(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def step_of(rank, world, make):
    """Two steps, barriers around each pass."""
    model = make()
    for _ in range(2):
        dist.barrier()
        loss = model(torch.ones(4, WIDTH)).sum()
        dist.barrier()
        loss.backward()


def passes(make, world: int = 2) -> list[list]:
    """What crossed in the forward and in the backward pass of the second step."""
    found = []
    for entry in run_ranks(step_of, world, args=(make,), **GLOO).journal:
        if entry.operation == "barrier":
            found.append([])
        elif entry.operation != "broadcast" and found:
            found[-1].append(entry)
    return found[-2:]


def sent(entries, world: int) -> float:
    """Bytes that a rank sends in rings."""
    return sum(e.bytes * (world - 1) / world * (2 if e.operation == "all_reduce" else 1) for e in entries)


def in_bf16() -> torch.nn.Module:
    return sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.audit)])
def test_fsdp_sends_half_as_much_again_as_ddp(world):
    replicated, shared = (sent(sum(passes(make, world), []), world) for make in (lambda: DDP(layers()), sharded))
    assert replicated == 2 * MODEL * (world - 1) / world and shared == 1.5 * replicated
    assert sent(sum(passes(in_bf16, world), []), world) == replicated


def test_the_backward_pass_gathers_again():
    forward, backward = ([e.operation for e in one] for one in passes(sharded))
    assert forward == ["all_gather"] * LAYERS
    assert sorted(backward) == ["all_gather"] * LAYERS + ["reduce_scatter"] * LAYERS
    forward, backward = ([e.operation for e in one] for one in passes(lambda: sharded(reshard_after_forward=False)))
    assert forward == ["all_gather"] * LAYERS and backward == ["reduce_scatter"] * LAYERS


def root_alone() -> torch.nn.Module:
    return fully_shard(layers(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))


def test_a_model_that_is_one_unit_is_gathered_once_and_kept():
    forward, backward = ([(e.operation, e.bytes) for e in one] for one in passes(root_alone))
    assert forward == [("all_gather", MODEL)] and backward == [("reduce_scatter", MODEL)]


def checkpointed() -> torch.nn.Module:
    model, mesh = layers(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def test_a_checkpoint_inside_a_unit_adds_no_gather():
    forward, backward = ([e.operation for e in one] for one in passes(checkpointed))
    assert forward == ["all_gather"] * LAYERS
    assert sorted(backward) == ["all_gather"] * LAYERS + ["reduce_scatter"] * LAYERS


def kept(rank, world, stage):
    """Bytes of parameters, gradients and Adam's moments that a rank keeps between steps."""
    model = sharded() if stage == 3 else DDP(layers())
    kind = torch.optim.Adam
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind) if stage == 1 else kind(model.parameters())
    model(torch.ones(4, WIDTH)).sum().backward()
    optimizer.step()

    def local(tensor):
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor

    states = (optimizer.optim if stage == 1 else optimizer).state.values()
    moments = [local(state[name]) for state in states for name in ("exp_avg", "exp_avg_sq")]
    return tuple(
        sum(t.nbytes for t in tensors)
        for tensors in ([local(p) for p in model.parameters()], [local(p.grad) for p in model.parameters()], moments)
    )


def test_stage_1_shares_the_optimizers_state_and_stage_3_the_parameters_and_gradients_too():
    found = {stage: run_ranks(kept, 4, args=(stage,), **GLOO).results[0] for stage in (0, 1, 3)}
    assert found[0] == (MODEL, MODEL, 2 * MODEL)
    assert found[1] == (MODEL, MODEL, 2 * MODEL // 4)
    assert found[3] == (MODEL // 4, MODEL // 4, 2 * MODEL // 4)


def by(strategy: ShardingStrategy) -> torch.nn.Module:
    """FSDP1, a unit a layer."""
    options = {"sharding_strategy": strategy, "device_id": torch.device("cpu")}
    units = (FullyShardedDataParallel(layer, **options) for layer in layers())
    return FullyShardedDataParallel(torch.nn.Sequential(*units), **options)


def test_fsdp_has_other_stages_and_offloads():
    full, stage_2, none = (
        {e.operation for e in passes(lambda strategy=strategy: by(strategy))[1]}
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD)
    )
    assert full == {"all_gather", "reduce_scatter"} and stage_2 == {"reduce_scatter"} and none == {"all_reduce"}
    assert ShardingStrategy.HYBRID_SHARD in ShardingStrategy
    assert CPUOffload(offload_params=True).offload_params and CPUOffloadPolicy().pin_memory


def wrapped(rank, world, policy):
    class Block(torch.nn.Linear):
        pass

    model = torch.nn.Sequential(Block(4, 4), Block(4, 4))
    if policy == "named":
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    model = FullyShardedDataParallel(model, auto_wrap_policy=policy, device_id=torch.device("cpu"))
    return sum(isinstance(module, FullyShardedDataParallel) for module in model.modules())


def test_the_wrap_policy_of_the_sample_lacks_an_argument():
    with pytest.raises(RankError, match="transformer_layer_cls"):
        run_ranks(wrapped, 2, args=(transformer_auto_wrap_policy,), **GLOO)
    assert run_ranks(wrapped, 2, args=("named",), **GLOO).results == [3, 3]


def test_the_samples_classes_are_those_of_the_older_fsdp():
    assert FullyShardedDataParallel.__module__ == "torch.distributed.fsdp.fully_sharded_data_parallel"
    assert "mp_policy" in inspect.signature(fully_shard).parameters
    assert "mixed_precision" not in inspect.signature(fully_shard).parameters


def reduced(rank, world, dtype):
    """The mean of 1 and three times 2^-10, reduced in ``dtype``."""
    row = torch.nn.Linear(4, 1, bias=False)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=dtype)
    fully_shard(row, mesh=init_device_mesh("cpu", (world,)), mp_policy=policy)
    row(torch.full((1, 4), 1.0 if rank == 2 else 2.0**-10)).sum().backward()
    return row.weight.grad.full_tensor()[0, 0].item()


def test_a_reduction_in_bf16_loses_small_gradients_and_a_cast_of_buffers_positions():
    exact = (1 + 3 * 2.0**-10) / 4
    wide, narrow = (
        run_ranks(reduced, 4, args=(dtype,), **GLOO).results[0] for dtype in (torch.float32, torch.bfloat16)
    )
    assert wide == exact and narrow < exact
    assert torch.arange(4096.0).bfloat16().unique().numel() < 1000
    assert MixedPrecision(buffer_dtype=torch.bfloat16).buffer_dtype == torch.bfloat16
    assert "buffer_dtype" not in inspect.signature(MixedPrecisionPolicy).parameters


def test_the_rate_limiter_is_on_by_default():
    assert inspect.signature(FullyShardedDataParallel).parameters["limit_all_gathers"].default is True
