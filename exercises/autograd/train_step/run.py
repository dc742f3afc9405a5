"""E2.1 train_step: what runs beside the learner's function."""

from collections.abc import Callable

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector, plain
from exercises.autograd.run_step import Loss as StepLoss
from exercises.autograd.run_step import Network, Watch, left_over, now_us, parameter_groups


def run(learner: Learner, case: dict) -> dict:
    """Take the steps, watched; nothing but the learner's function takes or frees memory in between."""
    with idle_card():
        model, loss_fn = Network(case["weights"], case["beside"]).cuda(), StepLoss(case["loss"])
        for name, module in model.named_modules():
            module.training = name not in case["asleep"]
        optimizer = getattr(torch.optim, case["optimizer"])(parameter_groups(model, case), **case["options"])
        batches = [(x.cuda(), y.cuda()) for x, y in zip(case["xs"], case["ys"], strict=True)]
        kept = left_over(model, case)
        watch = Watch(model, optimizer)
        step = lambda batch: learner.train_step(model, optimizer, batch, loss_fn)
        torch.cuda.synchronize()
        with no_collector(), observe() as seen:
            taken = [_one_step(step, batch, model, loss_fn, watch) for batch in batches]
        return {
            "taken": taken,
            "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
            "gradients": [None if parameter.grad is None else parameter.grad.cpu() for parameter in model.parameters()],
            "kept": [gradient.cpu() for gradient in kept],
            "batches": [[part.cpu() for part in batch] for batch in batches],
            "seen": seen.to_dict(),
        }


def _one_step(step: Callable, batch: tuple, model: Network, loss_fn: StepLoss, watch: Watch) -> dict:
    """What one call came to; its result is held while the card is read."""
    watch.calls, watch.steps, loss_fn.calls, model.nodes = [], [], 0, []
    before, began_us = watch.holds(), now_us()
    found = outcome(lambda: step(batch))
    result = found.get("returned")
    found["type"] = "float" if isinstance(result, float) else type(result).__name__
    return {
        **found,
        "returned": plain(result) if isinstance(result, float) else None,
        "value": loss_fn.value if loss_fn.calls else None,
        "before": before,
        "began_us": began_us,
        "calls": watch.calls,
        "forwards": len(model.nodes),
        "losses": loss_fn.calls,
        "steps": watch.steps,
        "after": watch.holds(),
        "alive": sum(node() is not None for node in model.nodes),
        "training": all(module.training for module in model.modules()),
        "graphs": sum(parameter.grad is not None and parameter.grad.requires_grad for parameter in model.parameters()),
    }
