"""What goes wrong in ranks, one function each."""

import os
import select
import signal

import torch
import torch.distributed as dist


def ones(*shape):
    return torch.ones(*shape, device="cuda")


def both_receive_first(rank, world):
    dist.recv(ones(4), (rank + 1) % world)


def ring_of_blocking_sends(rank, world):
    x = ones(4)
    dist.send(x, (rank + 1) % world)
    dist.recv(x, (rank - 1) % world)


def other_collective(rank, world):
    if rank == 0:
        dist.all_reduce(ones(4))
    else:
        dist.broadcast(ones(4), 0)


def other_size(rank, world):
    dist.all_reduce(ones(4 + (rank == 1)))


def other_dtype(rank, world):
    dist.all_reduce(ones(4).to(torch.bfloat16 if rank == 1 else torch.float32))


def other_reduction(rank, world):
    dist.all_reduce(ones(4), op=dist.ReduceOp.MAX if rank == 1 else dist.ReduceOp.SUM)


def other_root(rank, world):
    dist.broadcast(ones(4), min(rank, 1))


def other_order(rank, world):
    calls = [lambda: dist.all_reduce(ones(4)), lambda: dist.all_reduce(ones(8))]
    for call in calls if rank else reversed(calls):
        call()


def larger_message(rank, world):
    if rank == 0:
        dist.send(ones(8), 1)
    elif rank == 1:
        dist.recv(ones(4), 0)


def too_little_room_in_a_gather(rank, world):
    dist.all_to_all_single(
        ones(4 * world), ones(4 * world), [4] * world, [4] * world if rank else [0] * (world - 1) + [4 * world]
    )


def skips(rank, world):
    if rank != 0:
        dist.all_reduce(ones(4))


def group_that_not_all_make(rank, world):
    if rank == 0:
        dist.all_reduce(ones(4), group=dist.new_group([0, 1]))
    dist.barrier()


def raises(rank, world):
    if rank == 1:
        raise ValueError("the learner's own")
    dist.all_reduce(ones(4))


def raises_in_backward(rank, world):
    x = ones(4).requires_grad_()
    x.register_hook(lambda g: g.undefined)
    x.sum().backward()


def killed(rank, world):
    dist.all_reduce(ones(4))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(ones(4))


def leaves(rank, world):
    if rank == 1:
        os._exit(3)
    dist.all_reduce(ones(4))


def loops(rank, world):
    while rank == 1:
        pass
    dist.all_reduce(ones(4))


def sleeps_in_c(rank, world):
    if rank == 1:
        select.select([], [], [], 1000)
    dist.all_reduce(ones(4))


def returns_what_cannot_travel(rank, world):
    return (value for value in range(3))


def leaves_a_child(rank, world):
    if os.fork() == 0:
        select.select([], [], [], 1000)
    dist.all_reduce(ones(4))
