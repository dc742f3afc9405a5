"""E2.1 train_step: what runs beside the learner's function."""

from collections.abc import Callable
from weakref import ref

import torch

from autograder.protocol.event_sink import emit_note
from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector, plain
from exercises.autograd.run_step import Loss as StepLoss
from exercises.autograd.run_step import (
    Network,
    alive,
    holds,
    left_over,
    marking,
    note_use,
    now_us,
    parameter_groups,
)


def run(learner: Learner, case: dict) -> dict:
    """Take the steps, watched; nothing but the learner's function takes or frees memory in between."""
    with idle_card():
        born: list[ref] = []
        model, loss_fn = Network(case["weights"], marking(born), case["beside"]).cuda(), StepLoss(case["loss"])
        for name, module in model.named_modules():
            module.training = name not in case["asleep"]
        optimizer = getattr(torch.optim, case["optimizer"])(parameter_groups(model, case), **case["options"])
        batches = [(x.cuda(), y.cuda()) for x, y in zip(case["xs"], case["ys"], strict=True)]
        kept = left_over(model, case)
        note_use(model, optimizer)
        step = lambda batch: learner.train_step(model, optimizer, batch, loss_fn)
        torch.cuda.synchronize()
        with no_collector(), observe() as seen:
            taken = [_one_step(lambda: step(batch), model, optimizer, born) for batch in batches]
        return {
            "taken": taken,
            "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
            "gradients": [None if parameter.grad is None else parameter.grad.cpu() for parameter in model.parameters()],
            "kept": [gradient.cpu() for gradient in kept],
            "batches": [[part.cpu() for part in batch] for batch in batches],
            "seen": seen.to_dict(),
        }


def _one_step(step: Callable, model: Network, optimizer: torch.optim.Optimizer, born: list[ref]) -> dict:
    """What one call came to; its result is held while the card is read."""
    born.clear()
    before, began_us = holds(model, optimizer), now_us()
    emit_note("begins")
    found = outcome(step)
    result = found.get("returned")
    found["type"] = "float" if isinstance(result, float) else type(result).__name__
    return {
        **found,
        "returned": plain(result) if isinstance(result, float) else None,
        "before": before,
        "began_us": began_us,
        "after": holds(model, optimizer),
        "alive": alive(born),
        "training": all(module.training for module in model.modules()),
        "graphs": sum(parameter.grad is not None and parameter.grad.requires_grad for parameter in model.parameters()),
    }
