"""Every collective on device tensors, with its values, what it is counted as, and gloo's own answer."""

import warnings

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc

from gpulab.collectives import RankError, run_ranks

LENGTH = 12


def mine(rank, dtype=torch.float32, length=LENGTH):
    """Whole numbers, so that no order of additions matters."""
    return torch.arange(length).add(rank + 1).to(dtype).to(DEVICE)


DEVICE = "cuda"


def all_reduce(rank, world, dtype, op="SUM"):
    x = mine(rank, dtype)
    dist.all_reduce(x, op=getattr(dist.ReduceOp, op))
    return x


def all_reduce_later(rank, world, dtype):
    x = mine(rank, dtype)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return x


def broadcast(rank, world, dtype):
    x = mine(rank, dtype)
    dist.broadcast(x, 1)
    return x


def reduce(rank, world, dtype):
    x = mine(rank, dtype)
    dist.reduce(x, 1)
    return x if rank == 1 else torch.zeros(1)


def all_gather(rank, world, dtype):
    out = [torch.zeros(LENGTH, dtype=dtype, device=DEVICE) for _ in range(world)]
    dist.all_gather(out, mine(rank, dtype))
    return torch.cat(out)


def all_gather_into_tensor(rank, world, dtype):
    out = torch.zeros(world * LENGTH, dtype=dtype, device=DEVICE)
    dist.all_gather_into_tensor(out, mine(rank, dtype))
    return out


def gather(rank, world, dtype):
    out = [torch.zeros(LENGTH, dtype=dtype, device=DEVICE) for _ in range(world)] if rank == 1 else None
    dist.gather(mine(rank, dtype), out, 1)
    return torch.cat(out) if rank == 1 else torch.zeros(1)


def scatter(rank, world, dtype):
    out = torch.zeros(LENGTH, dtype=dtype, device=DEVICE)
    dist.scatter(out, [mine(10 * i, dtype) for i in range(world)] if rank == 1 else None, 1)
    return out


def reduce_scatter(rank, world, dtype):
    out = torch.zeros(LENGTH, dtype=dtype, device=DEVICE)
    dist.reduce_scatter(out, [mine(rank + i, dtype) for i in range(world)])
    return out


def reduce_scatter_tensor(rank, world, dtype):
    out = torch.zeros(LENGTH // world, dtype=dtype, device=DEVICE)
    dist.reduce_scatter_tensor(out, mine(rank, dtype))
    return out


def all_to_all_single(rank, world, dtype):
    out = torch.zeros(LENGTH, dtype=dtype, device=DEVICE)
    dist.all_to_all_single(out, mine(rank, dtype))
    return out


def all_to_all_of_different_sizes(rank, world, dtype):
    gives, takes = [1 + (rank + to) % 2 for to in range(world)], [1 + (rank + of) % 2 for of in range(world)]
    out = torch.zeros(sum(takes), dtype=dtype, device=DEVICE)
    dist.all_to_all_single(out, mine(rank, dtype, sum(gives)), takes, gives)
    return out


def send_and_receive(rank, world, dtype):
    x = mine(rank, dtype)
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
    return x


def exchange(rank, world, dtype):
    x = torch.zeros(LENGTH, dtype=dtype, device=DEVICE)
    ops = [dist.P2POp(dist.isend, mine(rank, dtype), (rank + 1) % world), dist.P2POp(dist.irecv, x, (rank - 1) % world)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    return x


def half_a_group(rank, world, dtype):
    group, x = dist.new_group(list(range(1, world))), mine(rank, dtype)
    if rank:
        dist.all_reduce(x, group=group)
    return x


def parts_of_a_tensor(rank, world, dtype):
    x = torch.stack([mine(rank, dtype), mine(rank + 5, dtype)]).t()
    for column in (x[:, 1], x[2]):
        column = column.contiguous()
        dist.all_reduce(column)
        x = x + column.sum()
    return x


EVERY = (
    all_reduce, all_reduce_later, broadcast, reduce, all_gather, all_gather_into_tensor, gather, scatter, reduce_scatter,
    reduce_scatter_tensor, all_to_all_single, all_to_all_of_different_sizes, send_and_receive, exchange, half_a_group,
    parts_of_a_tensor,
)  # fmt: skip


def every(rank, world, device, dtypes):
    global DEVICE
    DEVICE = device
    warnings.simplefilter("ignore")
    return {(f.__name__, dtype): f(rank, world, dtype) for f in EVERY for dtype in dtypes}


def test_values_are_those_of_gloo_itself(world):
    dtypes = (torch.float32, torch.int64)
    ours = run_ranks(every, world, args=("cuda", dtypes)).results
    gloos = run_ranks(every, world, args=("cpu", dtypes), card="off", transport="gloo").results
    for here, there in zip(ours, gloos, strict=True):
        assert here.keys() == there.keys() and not [name for name in here if not torch.equal(here[name], there[name])]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8])
def test_dtypes(dtype):
    for result in run_ranks(all_reduce, 2, args=(dtype,)).results:
        assert torch.equal(result, (torch.arange(LENGTH) * 2 + 3).to(dtype))


@pytest.mark.parametrize(("op", "expected"), [("AVG", 1.5), ("MAX", 2.0), ("MIN", 1.0), ("PRODUCT", 2.0)])
def test_reductions(op, expected):
    assert all(result[0] == expected for result in run_ranks(all_reduce, 2, args=(torch.float32, op)).results)


def test_a_reduction_that_there_is_none_of_is_said():
    with pytest.raises(RankError, match="all_reduce BAND of float32"):
        run_ranks(all_reduce, 2, args=(torch.float32, "BAND"), backend="gloo")


def test_sums_have_the_same_bits_on_each_rank_and_in_each_run():
    def summed(rank, world):
        x = torch.randn(1000, generator=torch.Generator().manual_seed(rank)).cuda()
        dist.all_reduce(x)
        return x

    results = [result for _ in range(2) for result in run_ranks(summed, 4).results]
    assert all(torch.equal(result, results[0]) for result in results)


def test_functional_collectives(world):
    def functional(rank, world):
        x, group = mine(rank), dist.group.WORLD
        z = mine(rank).requires_grad_()
        (fc.all_gather_tensor_autograd(z, 0, group) * (rank + 1)).sum().backward()
        return (
            fc.all_reduce(x, "sum", group),
            fc.all_gather_tensor(x, 0, group),
            fc.reduce_scatter_tensor(x, "sum", 0, group),
            fc.all_to_all_single(x, None, None, group),
            fc.broadcast(x, 1, group),
            x,
            z.grad,
        )

    def expected(rank):
        xs = [torch.arange(LENGTH) + r + 1.0 for r in range(world)]
        share = [sum(xs).chunk(world)[rank], torch.cat([x.chunk(world)[rank] for x in xs])]
        total = torch.full((LENGTH,), world * (world + 1) / 2)
        return (sum(xs), torch.cat(xs), *share, xs[1], xs[rank], total)

    for rank, results in enumerate(run_ranks(functional, world).results):
        assert [torch.equal(got, wanted) for got, wanted in zip(results, expected(rank), strict=True)] == [True] * 7


def test_the_first_use_of_a_functional_collective_waits():
    def functional(rank, world):
        import gpulab

        x = torch.ones(1 << 20, device="cuda")
        with gpulab.observe() as seen:
            y = fc.all_reduce(x, "sum", dist.group.WORLD)
            z = x * 2
            y + 1
        (collective,) = seen.collectives
        beside = [kernel.name for kernel in seen.beside(collective)]
        return beside, seen.kernels[-1].start_us >= collective.end_us, seen.races, z.sum().item()

    assert run_ranks(functional, 2).results == [(["aten.mul"], True, (), 2.0 * (1 << 20))] * 2


def test_objects(world):
    def objects(rank, world):
        every, box, own = [None] * world, [{"from": rank}], [None]
        dist.all_gather_object(every, {"rank": rank, "tensor": torch.ones(2, device="cuda")})
        dist.broadcast_object_list(box, 1)
        dist.scatter_object_list(own, [f"for {i}" for i in range(world)], 0)
        return [one["rank"] for one in every], str(every[0]["tensor"].device), box, own

    results = run_ranks(objects, world).results
    assert results == [(list(range(world)), f"cuda:{rank}", [{"from": 1}], [f"for {rank}"]) for rank in range(world)]


def test_a_barrier_holds_up_the_host():
    def meet(rank, world):
        if rank == 1:
            torch.cuda._sleep(1_000_000)
        import time

        dist.barrier()
        return time.perf_counter()

    warnings.simplefilter("ignore")
    early, late = run_ranks(meet, 2).results
    assert early == pytest.approx(late, abs=2e-5) and early > 5e-4
