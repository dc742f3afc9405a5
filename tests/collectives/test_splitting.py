"""``split_group``, and NCCL where there are no ranks."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import gpulab.cuda
from gpulab.collectives import RankError, run_ranks


def begin(rank):
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))


def total(group, rank):
    x = torch.tensor([rank + 1.0], device="cuda")
    dist.all_reduce(x, group=group)
    return x.item()


def test_a_split_reduces_among_its_ranks_alone():
    def split(rank, world):
        begin(rank)
        return total(dist.split_group(split_ranks=[[0, 2], [1, 3]]), rank)

    assert run_ranks(split, 4, backend=None).results == [4.0, 6.0, 4.0, 6.0]


def test_a_rank_in_no_split_gets_none():
    def split(rank, world):
        begin(rank)
        return dist.split_group(dist.group.WORLD, [[1, 2]]) is None

    assert run_ranks(split, 3, backend=None).results == [True, False, False]


def test_a_split_of_a_group_counts_its_ranks():
    def split(rank, world):
        begin(rank)
        group = dist.new_group([1, 2, 3])
        if rank == 0:
            return None
        return dist.get_process_group_ranks(dist.split_group(group, [[0], [1, 2]]))

    assert run_ranks(split, 4, backend=None).results == [None, [1], [2, 3], [2, 3]]


def test_a_mesh_of_a_group_with_a_device_is_made_of_splits():
    def mesh(rank, world):
        begin(rank)
        made = init_device_mesh("cuda", (2, 2), mesh_dim_names=("rows", "columns"))
        return [total(made[name].get_group(), rank) for name in ("rows", "columns")]

    assert run_ranks(mesh, 4, backend=None).results == [[4, 3], [6, 3], [4, 7], [6, 7]]


def test_a_group_without_a_device_is_not_split():
    with pytest.raises(
        RankError, match="No device associated with the default pg, not safe to split any process groups"
    ):
        run_ranks(lambda rank, world: dist.split_group(split_ranks=[[0, 1]]), 2)


@pytest.mark.parametrize(
    ("ranks", "words"), [([], "cannot be None or empty"), ([[]], "cannot be empty"), ([[0, 0]], "duplicate ranks")]
)
def test_what_is_no_split_is_refused(ranks, words):
    def split(rank, world):
        begin(rank)
        dist.split_group(split_ranks=ranks)

    with pytest.raises(RankError, match=words):
        run_ranks(split, 2, backend=None)


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_nccl_without_ranks_names_what_starts_them(backend):
    with gpulab.cuda.use("virtual:H100", quiet=True):
        with pytest.raises(gpulab.cuda.NotModelled, match=r"gpulab.collectives.run_ranks\(fn, world_size\)"):
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    assert not dist.is_initialized()


def test_context_parallelism_is_refused_by_name():
    def parallel(rank, world):
        from torch.distributed.tensor.experimental import context_parallel

        with context_parallel(init_device_mesh("cuda", (world,))):
            pass

    with pytest.raises(RankError, match="torch.distributed.tensor.experimental.context_parallel is not modelled"):
        run_ranks(parallel, 2)
