"""``torch.distributed``: a call for each public name, made by each of two ranks on a virtual card."""

import torch
import torch.distributed as dist
from torch.distributed import fsdp, rpc
from torch.distributed.tensor import experimental
from torch.nn.parallel import DistributedDataParallel

from gpulab.compat.distributed import FUNCTIONAL_ALL_REDUCE, SYMMETRIC_EMPTY, premultiplied_sum
from gpulab.names.calls import Names, outcome


def _ones(n: int = 4) -> torch.Tensor:
    return torch.ones(n, device="cuda")


def _pair() -> list[torch.Tensor]:
    return [_ones(), _ones()]


def _exchanged(rank: int) -> None:
    messages = [dist.P2POp(dist.isend, _ones(), 1 - rank), dist.P2POp(dist.irecv, _ones(), 1 - rank)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


def _stepped(wrap) -> None:
    wrap(torch.nn.Linear(2, 2, device="cuda"))(torch.ones(1, 2, device="cuda")).sum().backward()


def _split() -> None:
    dist.group.WORLD.bound_device_id = torch.device("cuda", torch.cuda.current_device())
    dist.split_group(split_ranks=[[0, 1]])


_NOTHING = (
    "barrier", "get_backend", "get_backend_config", "get_debug_level", "get_node_local_rank", "get_pg_count", "get_rank",
    "get_world_size", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
)  # fmt: skip
"""Called with nothing."""

DISTRIBUTED = Names(
    "torch.distributed",
    {
        **{name: lambda rank, name=name: getattr(dist, name)() for name in _NOTHING},
        "all_gather": lambda rank: dist.all_gather(_pair(), _ones()),
        "all_gather_coalesced": lambda rank: dist.all_gather_coalesced([[_ones()], [_ones()]], [_ones()]),
        "all_gather_into_tensor": lambda rank: dist.all_gather_into_tensor(_ones(8), _ones()),
        "all_gather_object": lambda rank: dist.all_gather_object([None, None], rank),
        "all_gather_single": lambda rank: dist.all_gather_single(_ones(8), _ones()),
        "all_reduce": lambda rank: dist.all_reduce(_ones()),
        "all_reduce_coalesced": lambda rank: dist.all_reduce_coalesced(_pair()),
        "all_to_all": lambda rank: dist.all_to_all(_pair(), _pair()),
        "all_to_all_single": lambda rank: dist.all_to_all_single(_ones(), _ones()),
        "batch_isend_irecv": _exchanged,
        "broadcast": lambda rank: dist.broadcast(_ones(), 0),
        "broadcast_object_list": lambda rank: dist.broadcast_object_list([rank], 0),
        "gather": lambda rank: dist.gather(_ones(), None if rank else _pair(), 0),
        "gather_object": lambda rank: dist.gather_object(rank, None if rank else [None, None], 0),
        "get_default_backend_for_device": lambda rank: dist.get_default_backend_for_device("cuda"),
        "get_global_rank": lambda rank: dist.get_global_rank(dist.group.WORLD, 0),
        "get_group_rank": lambda rank: dist.get_group_rank(dist.group.WORLD, 0),
        "get_process_group_ranks": lambda rank: dist.get_process_group_ranks(dist.group.WORLD),
        "init_device_mesh": lambda rank: dist.init_device_mesh("cuda", (2,)),
        "irecv": lambda rank: dist.irecv(_ones(), 0).wait() if rank else dist.send(_ones(), 1),
        "is_backend_available": lambda rank: dist.is_backend_available("nccl"),
        "isend": lambda rank: dist.recv(_ones(), 0) if rank else dist.isend(_ones(), 1).wait(),
        "new_group": lambda rank: dist.new_group([0, 1]),
        "new_subgroups": lambda rank: dist.new_subgroups(1),
        "new_subgroups_by_enumeration": lambda rank: dist.new_subgroups_by_enumeration([[0], [1]]),
        "recv": lambda rank: dist.recv(_ones(), 0) if rank else dist.send(_ones(), 1),
        "recv_object_list": lambda rank: dist.recv_object_list([None], 0) if rank else dist.send_object_list([1], 1),
        "reduce": lambda rank: dist.reduce(_ones(), 0),
        "reduce_scatter": lambda rank: dist.reduce_scatter(_ones(), _pair()),
        "reduce_scatter_single": lambda rank: dist.reduce_scatter_single(_ones(2), _ones()),
        "reduce_scatter_tensor": lambda rank: dist.reduce_scatter_tensor(_ones(2), _ones()),
        "scatter": lambda rank: dist.scatter(_ones(), None if rank else _pair(), 0),
        "scatter_object_list": lambda rank: dist.scatter_object_list([None], None if rank else [1, 2], 0),
        "send": lambda rank: dist.send(_ones(), 0) if rank else dist.recv(_ones(), 1),
        "send_object_list": lambda rank: dist.send_object_list([1], 0) if rank else dist.recv_object_list([None], 1),
        "set_debug_level": lambda rank: dist.set_debug_level(dist.get_debug_level()),
        "set_debug_level_from_env": lambda rank: dist.set_debug_level_from_env(),
        "shrink_group": lambda rank: dist.shrink_group([1]),
        "split_group": lambda rank: _split(),
        "supports_complex": lambda rank: dist.supports_complex(dist.ReduceOp.SUM),
        "ReduceOp.AVG": lambda rank: dist.all_reduce(_ones(), dist.ReduceOp.AVG),
        "ReduceOp.PREMUL_SUM": lambda rank: dist.all_reduce(_ones(), premultiplied_sum(2.0)),
        "DistributedDataParallel": lambda rank: _stepped(DistributedDataParallel),
        "fsdp.fully_shard": lambda rank: _stepped(fsdp.fully_shard),
        "functional collectives": lambda rank: FUNCTIONAL_ALL_REDUCE.value(_ones(), "sum", dist.group.WORLD).sum(),
        "symmetric memory": lambda rank: SYMMETRIC_EMPTY.value(4, device="cuda"),
        "context_parallel": lambda rank: experimental.context_parallel(dist.init_device_mesh("cuda", (2,)), buffers=[]),
        "rpc": lambda rank: rpc.init_rpc(f"worker {rank}", rank=rank, world_size=2),
    },
    {
        "gloo's, not NCCL's": ("monitored_barrier",),
        "before and after what a rank runs": (
            "init_process_group", "destroy_process_group", "rendezvous", "register_rendezvous_handler",
        ),
        "stores": ("FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"),
        "types, options and errors": (
            "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend", "BackendConfig",
            "BarrierOptions", "BroadcastOptions", "BuiltinCommHookType", "DebugLevel", "DeviceMesh", "DistBackendError",
            "DistError", "DistNetworkError", "DistStoreError", "GatherOptions", "GradBucket", "GroupMember", "GroupName",
            "Logger", "P2POp", "ProcessGroup", "ProcessGroupGloo", "QueueEmptyError", "ReduceOp", "ReduceOptions",
            "ReduceScatterOptions", "Reducer", "ScatterOptions", "Work", "group", "timedelta",
        ),
        "for a debugger": ("breakpoint", "record_comm"),
    },
)  # fmt: skip


def in_ranks(rank: int, world: int) -> dict[str, str]:
    """What each call comes to, for ``gpulab.collectives.run_ranks``."""
    return {name: outcome(call, rank) for name, call in DISTRIBUTED.calls.items()}
