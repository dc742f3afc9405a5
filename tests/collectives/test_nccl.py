"""What PyTorch's ``ProcessGroupNCCL`` refuses, in its words, before anything is posted; and what NCCL makes of memory."""

import warnings

import pytest
import torch
import torch.distributed as dist

from gpulab.collectives import RankError, run_ranks


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype, device="cuda")


def turned():
    return ones(4, 2).t()


def reduced(op, dtype):
    return lambda: dist.all_reduce(ones(4, dtype=dtype), op=getattr(dist.ReduceOp, op))


def exchanged(rows, gives=None, takes=None):
    return lambda: dist.all_to_all_single(ones(rows), ones(rows), takes, gives)


def given_by_1():
    return [ones(2, 4), ones(2, 4)] if dist.get_rank() == 1 else None


def gathered(output, source):
    return lambda: dist.all_gather_into_tensor(output(), source())


def scattered(output, source):
    return lambda: dist.reduce_scatter_tensor(output(), source())


CONTIGUOUS = "ValueError: Tensors must be contiguous"
GATHERED, SCATTERED = (
    "output tensor size must be equal to world_size times",
    "input tensor must be the same size as output",
)
REFUSED = {
    "all_reduce of a view": (lambda: dist.all_reduce(turned()), CONTIGUOUS),
    "broadcast of a view": (lambda: dist.broadcast(turned(), 0), CONTIGUOUS),
    "reduce of a view": (lambda: dist.reduce(turned(), 0), CONTIGUOUS),
    "all_gather of a view": (lambda: dist.all_gather([ones(2, 4), ones(2, 4)], turned()), CONTIGUOUS),
    "all_gather into a view": (gathered(lambda: ones(4, 4).t(), lambda: ones(2, 4)), CONTIGUOUS),
    "reduce_scatter into a view": (lambda: dist.reduce_scatter(turned(), [ones(2, 4), ones(2, 4)]), CONTIGUOUS),
    "all_to_all of a view": (lambda: dist.all_to_all_single(ones(2, 4), turned()), CONTIGUOUS),
    "reduce_scatter of a view": (scattered(lambda: ones(2, 2), lambda: ones(2, 4).t()), "NotModelled: reduce_scatter of"),
    "scatter into a view": (lambda: dist.scatter(turned(), given_by_1(), 1), "NotModelled: scatter of what is not contiguous"),
    "a message with gaps": (lambda: dist.isend(ones(4, 4)[:, 0], 1), "NotModelled: a message of a tensor with gaps"),
    "BAND": (reduced("BAND", torch.int64), "ValueError: Cannot use ReduceOp.BAND with NCCL"),
    "BOR": (reduced("BOR", torch.bool), "ValueError: Cannot use ReduceOp.BOR with NCCL"),
    "BXOR": (reduced("BXOR", torch.uint8), "ValueError: Cannot use ReduceOp.BXOR with NCCL"),
    "AVG of bool": (reduced("AVG", torch.bool), "TypeError: Cannot use ReduceOp.AVG with boolean inputs"),
    "int16": (reduced("SUM", torch.int16), "TypeError: Input tensor data type is not supported for NCCL process group: Short"),
    "int16 exchanged": (
        lambda: dist.all_to_all_single(ones(2, dtype=torch.int16), ones(2, dtype=torch.int16)),
        "RuntimeError: Unconvertible NCCL type Short",
    ),
    "all_gather of another size": (gathered(lambda: ones(3), lambda: ones(2)), f"ValueError: {GATHERED}"),
    "all_gather of another dtype": (
        gathered(lambda: ones(4, dtype=torch.float16), lambda: ones(2)),
        "TypeError: output tensor must have the same type as input tensor",
    ),
    "reduce_scatter of another size": (scattered(lambda: ones(1), lambda: ones(3)), f"ValueError: {SCATTERED}"),
    "reduce_scatter of another dtype": (
        scattered(lambda: ones(2, dtype=torch.float16), lambda: ones(4)),
        "TypeError: input tensor must be the same type as the output tensor.",
    ),
    "all_to_all without equal shares": (exchanged(3), "NotModelled: all_to_all of 3 elements among 2 ranks"),
    "splits of other rows": (exchanged(4, [1, 2], [1, 2]), "RuntimeError: Split sizes doesn't match total dim 0 size"),
    "splits of other ranks": (exchanged(3, [1, 1, 1], [1, 1, 1]), "RuntimeError: Number of tensor splits not equal to group"),
    "splits on one side": (exchanged(3, [1, 2], None), "RuntimeError: Tensor's dim 0 does not divide equally across group"),
}  # fmt: skip


def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def refusals(rank, world):
    warnings.simplefilter("ignore")
    return {name: said(call) for name, (call, _) in REFUSED.items()}


@pytest.fixture(scope="module")
def runs():
    return run_ranks(refusals, 2)


@pytest.mark.parametrize("name", REFUSED)
def test_what_nccl_does_not_take_is_refused_in_pytorchs_words(runs, name):
    for result in runs.results:
        assert result[name].startswith(REFUSED[name][1])


def test_a_refused_collective_is_not_posted(runs):
    assert runs.journal == ()


def test_what_one_rank_alone_is_refused_ends_the_run_with_its_words():
    def gather(rank, world):
        dist.gather(ones(2), [ones(2), ones(3)] if rank == 0 else None, 0)

    with pytest.raises(
        RankError, match=r"ProcessGroupNCCL::gather: invalid tensor size at index 1 \(expected \[2\], got"
    ):
        run_ranks(gather, 2)


def test_gloo_takes_bitwise_reductions_and_views():
    def taken(rank, world):
        x = torch.tensor([rank + 1])
        dist.all_reduce(x, op=dist.ReduceOp.BOR)
        y = turned() * (rank + 1)
        dist.all_reduce(y)
        return x.item(), y.sum().item()

    assert run_ranks(taken, 2, backend="gloo").results == [(3, 24.0), (3, 24.0)]


def test_the_outputs_of_all_gather_may_be_views():
    def gather(rank, world):
        out = [ones(2, 3).t() for _ in range(world)]
        dist.all_gather(out, torch.arange(6.0, device="cuda").view(3, 2) + rank)
        return out[1].flatten()

    assert run_ranks(gather, 2).results[0].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_message_goes_out_as_it_lies_in_memory_and_the_rank_is_warned():
    def message(rank, world):
        x = torch.arange(6.0, device="cuda").view(2, 3).t() if rank == 0 else torch.zeros(3, 2, device="cuda")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            dist.send(x, 1) if rank == 0 else dist.recv(x, 0)
        return x.flatten(), [str(one.message) for one in seen if "P2P" in str(one.message)]

    (_, warned), (arrived, silent) = run_ranks(message, 2).results
    assert arrived.tolist() == [0, 1, 2, 3, 4, 5] and len(warned) == 1 and not silent


def test_tensors_in_another_memory_format_are_taken_as_they_lie():
    def broadcast(rank, world):
        x = torch.arange(8.0, device="cuda").view(1, 2, 2, 2)
        x = x.contiguous(memory_format=torch.channels_last) if rank == 0 else torch.zeros_like(x)
        dist.broadcast(x, 0)
        return x.flatten()

    results = run_ranks(broadcast, 2).results
    assert results[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7] and results[1].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_the_mean_of_integers_drops_what_is_left():
    def mean(rank, world):
        x = torch.tensor([2**53 + 1, 3 + rank, -3 - rank], device="cuda")
        dist.all_reduce(x, op=dist.ReduceOp.AVG)
        return x

    assert run_ranks(mean, 2).results[0].tolist() == [2**53 + 1, 3, -3]


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "all_gather_into_tensor", "send and recv"])
def test_memory_that_was_handed_in_can_be_freed_and_taken_again(collective):
    def freed_and_taken(rank, world):
        x = torch.full((4,), rank + 1.0, device="cuda")
        post = {
            "all_reduce": lambda: dist.all_reduce(x),
            "broadcast": lambda: dist.broadcast(x, 0),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(ones(4 * world), x),
            "send and recv": lambda: dist.send(x, 1) if rank == 0 else dist.recv(x, 0),
        }
        post[collective]()
        x.untyped_storage().resize_(0)
        freed = torch.cuda.memory_allocated()
        x.untyped_storage().resize_(16)
        return freed, x.fill_(rank).tolist()

    assert run_ranks(freed_and_taken, 2).results == [(0, [0.0] * 4), (0, [1.0] * 4)]


def test_memory_that_was_freed_is_not_handed_in():
    def freed(rank, world):
        x = ones(4)
        x.untyped_storage().resize_(0)
        dist.all_reduce(x)

    with pytest.raises(RankError, match="storage of size 0"):
        run_ranks(freed, 2)
