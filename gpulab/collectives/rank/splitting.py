"""``split_group``: a group of some of another's ranks, without the ranks that are in none.

PyTorch splits in C++, by a backend that a CPU build has not. A group here costs nothing to begin, so a split is a new group.
"""

import functools

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from gpulab.compat.distributed import NEW_GROUP_HELPER, PLACES_OF_SPLIT_GROUP


def install() -> None:
    """``split_group`` is ours from now on, and a group knows the device that it was begun with."""
    NEW_GROUP_HELPER.set(_binding_device(NEW_GROUP_HELPER.value))
    for place in PLACES_OF_SPLIT_GROUP:
        place.set(split_group)


def _binding_device(original):
    @functools.wraps(original)
    def helper(*args, device_id=None, **kwargs):
        group, store = original(*args, device_id=device_id, **kwargs)
        if device_id is not None and group is not c10d.GroupMember.NON_GROUP_MEMBER:
            group.bound_device_id = device_id
        return group, store

    return helper


@functools.wraps(c10d.split_group)
def split_group(
    parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None
) -> dist.ProcessGroup | None:
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    if dist.group.WORLD.bound_device_id is None:
        raise RuntimeError("No device associated with the default pg, not safe to split any process groups")
    parent = parent_pg or dist.group.WORLD
    if dist.get_backend(parent) != "nccl":
        raise RuntimeError("No backend for the parent process group or its backend does not support splitting")
    mine = _own(split_ranks, parent)
    if mine is None:
        return None
    ranks = [dist.get_global_rank(parent, rank) for rank in mine]
    return dist.new_group(
        ranks, timeout, backend or "nccl", pg_options, use_local_synchronization=True, group_desc=group_desc
    )


def _own(split_ranks: list, parent) -> list[int] | None:
    """The split that this rank is in. Raises ValueError for a split that is none."""
    for ranks in split_ranks:
        if not ranks:
            raise ValueError("the split group cannot be empty")
        if len(ranks) > dist.get_world_size():
            raise ValueError(
                "the split group's size should be less or equal to the world_size set by init_process_group"
            )
        if len(ranks) != len(set(ranks)):
            raise ValueError("the split group cannot have duplicate ranks")
        if dist.get_rank(parent) in ranks:
            return sorted(ranks)
    return None
