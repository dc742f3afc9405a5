"""What chapter 14 says of buckets and of futures, by PyTorch's own function and by gloo itself."""

import random

import pytest
import torch
import torch.distributed as dist

from exercises.data_parallel.best_bucket.judge import _sent
from exercises.data_parallel.mini_ddp.training import _buckets
from gpulab.collectives import RankError, run_ranks
from tests.solved import solved

DTYPES = (torch.float32, torch.float64)


def model(seed: int, dtypes=DTYPES) -> tuple[torch.nn.ParameterList, int]:
    """Parameters of some sizes and dtypes, and a bucket size."""
    rng = random.Random(seed)
    parameters = [torch.rand(rng.randint(1, 9), dtype=rng.choice(dtypes)) for _ in range(rng.randint(1, 12))]
    return torch.nn.ParameterList(parameters), rng.choice((1, 8, 24, 40, 100, 1000))


def pytorchs(parameters: torch.nn.ParameterList, full: int) -> list[list[torch.Tensor]]:
    """By dtype and bytes, from the last parameter to the first."""
    last_first = list(parameters)[::-1]
    buckets, _ = dist._compute_bucket_assignment_by_size(last_first, [full])
    return [[last_first[number] for number in bucket] for bucket in buckets]


def form(bucket: list[torch.Tensor]) -> tuple[str, int]:
    return str(bucket[0].dtype).removeprefix("torch."), sum(p.nbytes for p in bucket)


def test_a_bucket_is_full_when_it_reaches_the_size_and_each_dtype_goes_on_in_its_own():
    sizes = [(60, torch.float32), (40, torch.float32), (50 * 8, torch.float64), (52, torch.float32)]
    tensors = [torch.empty(nbytes // dtype.itemsize, dtype=dtype) for nbytes, dtype in sizes]
    assert dist._compute_bucket_assignment_by_size(tensors[:2] + tensors[3:], [100])[0] == [[0, 1], [2]]
    assert dist._compute_bucket_assignment_by_size(tensors, [101])[0] == [[0, 1, 3], [2]]


@pytest.mark.parametrize("seed", range(20))
def test_the_judges_buckets_are_pytorchs(seed):
    parameters, full = model(seed)
    found = [[p.data_ptr() for p in bucket.values()] for bucket in _buckets(parameters.named_parameters(), full)]
    assert found == [[p.data_ptr() for p in bucket] for bucket in pytorchs(parameters, full)]


@pytest.mark.parametrize("seed", range(20))
def test_those_of_the_best_bucket_too(seed):
    parameters, full = model(seed, DTYPES[:1])
    layers = [{"us": 1, "bytes": p.nbytes} for p in list(parameters)[::-1]]
    assert [held for *_, held in _sent({"layers": layers}, full)] == [form(b)[1] for b in pytorchs(parameters, full)]


def trained(rank, world, mini_ddp):
    for seed in range(12):
        parameters, full = model(seed)
        finish = mini_ddp(parameters, full)
        sum(parameter.sum().double() for parameter in parameters).backward()
        finish()


def test_mini_ddp_sends_pytorchs_buckets():
    mini_ddp = solved("data_parallel", "mini_ddp", dist=dist)
    run = run_ranks(trained, 2, args=(mini_ddp,), card="off", backend="gloo")
    sent = [(entry.dtype, entry.bytes) for entry in run.journal if entry.operation == "all_reduce"]
    assert sent == [form(bucket) for seed in range(12) for bucket in pytorchs(*model(seed))]


def future_first(rank, world):
    """Rank 1 comes to the all-reduce when rank 0 has its future."""
    tensor = torch.ones(2)
    if rank == 0:
        future = dist.all_reduce(tensor, async_op=True).get_future()
        dist.send(torch.zeros(1), 1)
        future.wait()
    else:
        dist.recv(torch.zeros(1), 0)
        dist.all_reduce(tensor)
    return tensor.tolist()


def test_asking_gloo_for_a_future_does_not_wait():
    assert run_ranks(future_first, 2, card="off", backend="gloo", transport="gloo").results == [[2.0, 2.0]] * 2


def test_here_it_does():
    with pytest.raises(RankError, match="all_reduce"):
        run_ranks(future_first, 2, card="off", backend="gloo")
