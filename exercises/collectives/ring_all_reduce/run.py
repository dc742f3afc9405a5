"""E13.1 ring_all_reduce: runs the learner's code on every rank; the referee's collective broker carries the messages."""

import torch
import torch.distributed as dist

from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Call it in every rank, once for each of the case's calls, with a barrier between two; give what lies in memory after."""

    def in_rank(rank: int, world: int) -> list[torch.Tensor]:
        """What lies where each buffer lay, as it is when the call is over: it may be another tensor's by then."""
        found = []
        for number, strided in enumerate(case["strided"]):
            if number:
                dist.barrier()
            base = own_inputs()["base"]
            lies = base.detach()
            learner.ring_all_reduce(rank, world, base[1::2] if strided else base, _send, _recv)
            found.append(lies.clone())
        return found

    return in_ranks(in_rank, case["world"])


def _send(tensor: torch.Tensor, to: int) -> dist.Work:
    return dist.isend(tensor.clone(memory_format=torch.contiguous_format), to)


def _recv(tensor: torch.Tensor, source: int) -> None:
    message = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    dist.recv(message, source)
    tensor.copy_(message)
