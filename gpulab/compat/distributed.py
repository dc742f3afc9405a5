"""``torch.distributed``: backends, groups, DDP's C++ and how ranks meet."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed._symmetric_memory as symmetric_memory
import torch.distributed.device_mesh as device_mesh
import torch.distributed.distributed_c10d as c10d
import torch.distributed.rpc as rpc
from torch.distributed.rendezvous import _rendezvous_handlers

from gpulab.compat.places import Place

NCCL_AVAILABLE = Place(c10d, "_NCCL_AVAILABLE")
NCCL_VERSION = Place(torch._C, "_nccl_version")
NCCL_VERSION_SUFFIX = Place(torch._C, "_nccl_version_suffix")
VERIFY_PARAMETERS = Place(dist, "_verify_params_across_processes")
resolve_process_group = c10d._resolve_process_group
"""The group of a name."""
fake_process_group = torch._C._distributed_c10d.FakeProcessGroup._create_internal
rendezvous_handlers = _rendezvous_handlers
"""By the scheme of an address what yields ``(store, rank, world size)``."""
NEW_GROUP_HELPER = Place(c10d, "_new_process_group_helper")
"""What makes every group; ``device_id=`` is the device that it is bound to."""
PLACES_OF_SPLIT_GROUP = tuple(Place(module, "split_group") for module in (c10d, dist, device_mesh))

NOT_IN_RANKS = {
    **{Place(module, "shrink_group"): "torch.distributed.shrink_group" for module in (c10d, dist)},
    **{Place(symmetric_memory, name): f"symmetric memory ({name})" for name in ("empty", "rendezvous")},
    Place(rpc, "init_rpc"): "torch.distributed.rpc",
}
"""Functions that do nothing for a group of ours, with what to call them."""
FUNCTIONAL_ALL_REDUCE = Place(functional, "all_reduce")
SYMMETRIC_EMPTY = Place(symmetric_memory, "empty")
premultiplied_sum = dist._make_nccl_premul_sum
"""NCCL's reduction that multiplies by a factor first."""
