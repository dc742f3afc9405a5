"""E14.1 mini_ddp: what runs beside the learner's function."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.ranks import in_ranks, marker, own_inputs
from autograder.runner.scenario_runner import Learner
from exercises.data_parallel.mini_ddp.shared import built, held, loss


def run(learner: Learner, case: dict) -> dict:
    """Make the models data parallel in every rank, and train its own steps; markers in the log say when."""

    def in_rank(rank: int, world: int) -> dict:
        own, mark = own_inputs(), marker(rank)
        models = built(own["models"])
        tensors = held(models)
        storages = [tensor.detach() for tensor in tensors]
        optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
        finishes = [_function(learner.mini_ddp(*asked)) for asked in zip(models, case["bucket_bytes"], strict=True)]
        starts, written, grads = _copies(tensors), _copies(storages), []
        mark(-1)
        for step in own["steps"]:
            _backward(models, step, mark, peer=1 - rank)
            grads.append([])
            for model, finish in zip(models, finishes, strict=True):
                finish()
                grads[-1] += [_gradient(parameter) for parameter in model.parameters()]
            mark(-1)
            optimizer.zero_grad(set_to_none=step["to_none"])
        return {"starts": starts, "written": written, "grads": grads}

    return in_ranks(in_rank, case["world"])


def _function(value: object) -> Callable[[], object]:
    if not callable(value):
        raise TypeError(f"mini_ddp returned {type(value).__name__}; expected a function")
    return value


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _gradient(parameter: nn.Parameter) -> object:
    """As it is now; of a tensor's subclass its name, for it might come to its values later."""
    grad = parameter.grad
    return grad.clone() if type(grad) is torch.Tensor else None if grad is None else type(grad).__name__


def _backward(models: nn.ModuleList, step: dict, mark: Callable[[int], None], peer: int) -> None:
    """Forward and backward; the backward pass marks every layer behind it.

    Where the step's ``gate`` is ``"recv"``, it begins when that of ``peer``, whose gate is ``"send"``, has come to its end.
    """

    def behind(number: int) -> None:
        mark(number)
        if step["gate"] == "send" and number == step["route"][0]:
            dist.isend(torch.zeros(1), peer)

    def passed(h: torch.Tensor, number: int) -> torch.Tensor:
        here = h.view_as(h)
        here.register_hook(lambda _: behind(number))
        return here

    value = loss(models, step, passed)
    if step["gate"] == "recv":
        dist.recv(torch.zeros(1), peer)
    value.backward()
