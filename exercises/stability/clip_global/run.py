"""E17.1 clip_global: gradients on the card of one process, and on those of ranks that have shards."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.card import idle_card
from autograder.runner.observed import observe, record_inputs, storage_address
from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner


def run(learner: Learner, case: dict) -> dict:
    """Call it with gradients on the card; what ran, and what they are then. In ranks each has its own, and a group or none."""
    if "groups" in case:
        return in_ranks(
            lambda rank, world: _in_rank(learner, case["groups"], rank), case["world"], card="virtual", backend="nccl"
        )
    with idle_card():
        parameters = _parameters(case["grads"])
        grads = [parameter.grad for parameter in parameters]
        there = [grad for grad in grads if grad is not None]
        record_inputs(*there)
        with observe() as seen:
            found = outcome(lambda: learner.clip_global(_handed(parameters, case["once"]), case["max_norm"]))
        result_addresses = [storage_address(parameter.grad) for parameter in parameters if parameter.grad is not None]
        return _told(found, parameters, grads) | {"result_addresses": result_addresses, "seen": seen.to_dict()}


def _in_rank(learner: Learner, groups: list[list[int]], rank: int) -> dict:
    own, mine = own_inputs(), next((ranks for ranks in groups if rank in ranks), None)
    group = mine and dist.new_group(mine, use_local_synchronization=True)
    parameters = _parameters(own["grads"])
    grads = [parameter.grad for parameter in parameters]
    named = {"group": group} if group else {}
    return _told(outcome(lambda: learner.clip_global(parameters, own["max_norm"], **named)), parameters, grads)


def _parameters(grads: list[torch.Tensor | None]) -> list[nn.Parameter]:
    """On the card, with these gradients. Those that share a storage do so on the card, too."""
    buffers: dict[int, torch.Tensor] = {}
    made = []
    for grad in grads:
        if grad is None:
            made.append(nn.Parameter(torch.zeros(3, device="cuda")))
            continue
        storage = grad.untyped_storage()
        whole = torch.empty(0, dtype=grad.dtype).set_(storage)
        buffer = buffers.setdefault(storage.data_ptr(), whole.cuda())
        made.append(nn.Parameter(torch.zeros(grad.shape, dtype=grad.dtype, device="cuda")))
        made[-1].grad = buffer.as_strided(grad.shape, grad.stride(), grad.storage_offset())
    return made


def _handed(parameters: list[nn.Parameter], once: bool) -> Any:
    return iter(parameters) if once else parameters


def _told(found: dict, parameters: list[nn.Parameter], grads: list) -> dict:
    """The norm and the gradients, on the host, and whether these are the tensors that were there."""
    norm = found.get("returned")
    if isinstance(norm, torch.Tensor):
        found = found | {"returned": norm.detach().cpu(), "on_card": norm.is_cuda}
    after = [None if parameter.grad is None else parameter.grad.cpu() for parameter in parameters]
    same = all(parameter.grad is grad for parameter, grad in zip(parameters, grads, strict=True))
    return found | {"grads": after, "same": same}
