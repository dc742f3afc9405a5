"""E17.4 spike_guard: real optimizers in ranks, which meet the losses of a case."""

import torch
import torch.distributed as dist
from torch import nn

from autograder.runner.outcome import outcome
from autograder.runner.ranks import in_ranks, own_inputs
from autograder.runner.scenario_runner import Learner

_OPTIMIZERS = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


def run(learner: Learner, case: dict) -> dict:
    """Make guards in every rank, and call them with the rank's own losses; what each call left behind."""

    def in_rank(rank: int, world: int) -> dict:
        own, mine = own_inputs(), next((ranks for ranks in case["groups"] if rank in ranks), None)
        named = {"group": dist.new_group(mine, use_local_synchronization=True)} if mine else {}
        refused = [
            outcome(lambda o=o: learner.spike_guard(*_optimizer("sgd", [torch.zeros(2)]), **o)) for o in own["refused"]
        ]
        return {"refused": refused, "runs": [_run(learner, run, named) for run in own["runs"]]}

    return in_ranks(in_rank, case["world"])


def _run(learner: Learner, run: dict, named: dict) -> list[dict]:
    """Guards, and calls of them up to the first that raises."""
    made, calls = [_guarded(learner, spec, named) for spec in run["guards"]], []
    for call in run["calls"]:
        calls.append(_called(*made[call["of"]], call))
        if "error" in calls[-1]:
            break
    return calls


def _optimizer(kind: str, values: list[torch.Tensor], **options) -> list:
    return [_OPTIMIZERS[kind]([nn.Parameter(value.clone()) for value in values], **{"lr": 0.1} | options)]


def _guarded(learner: Learner, spec: dict, named: dict) -> tuple:
    (optimizer,) = _optimizer(spec["kind"], spec["values"], **spec["options"])
    step = learner.spike_guard(optimizer, **spec["named"], **named)
    if not callable(step):
        raise TypeError(f"spike_guard returned {type(step).__name__}; expected a function")
    return optimizer, optimizer.param_groups[0]["params"], step


def _called(optimizer: torch.optim.Optimizer, parameters: list, step, call: dict) -> dict:
    for parameter, grad in zip(parameters, call["grads"], strict=True):
        parameter.grad = grad.clone()
    found = outcome(lambda: step(call["loss"]))
    values = [parameter.detach().clone() for parameter in parameters]
    return found | {"values": values, "state": state_of(optimizer), "dropped": all(p.grad is None for p in parameters)}


def state_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All tensors of an optimizer's state, in the order of parameters and names."""
    by_parameter = optimizer.state_dict()["state"]
    states = [by_parameter[number] for number in sorted(by_parameter)]
    return [
        state[name].detach().clone()
        for state in states
        for name in sorted(state)
        if isinstance(state[name], torch.Tensor)
    ]
