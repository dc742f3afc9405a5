"""gpulab.parallel.mesh_groups gives the groups of torch.distributed's device mesh."""

import pytest

from gpulab.collectives import structure
from gpulab.parallel import mesh_groups


def groups_of_torch(rank, world, sizes):
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    return {name: dist.get_process_group_ranks(mesh[name].get_group()) for name in sizes}


def test_groups_are_those_of_a_device_mesh_of_64_ranks():
    sizes = {"dp": 8, "pp": 4, "tp": 2}
    ours, ranks = mesh_groups(sizes), (0, 1, 21, 63)
    run = structure(groups_of_torch, 64, ranks=ranks, args=(sizes,), card="off", backend="gloo", observe=False)
    for rank, theirs in zip(ranks, run.results, strict=True):
        assert theirs == {name: next(group for group in ours[name] if rank in group) for name in sizes}


def test_every_rank_is_in_one_group_of_each_dimension():
    for name, groups in mesh_groups({"a": 2, "b": 3, "c": 4}).items():
        assert sorted(rank for group in groups for rank in group) == list(range(24)), name
        assert groups == sorted(groups)


def test_a_mesh_has_no_dimension_of_nothing():
    with pytest.raises(ValueError, match="mesh"):
        mesh_groups({"dp": 0})
