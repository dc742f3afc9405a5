"""E2.2 evaluate: what runs beside the learner's function."""

from collections.abc import Callable, Iterable

import torch
from torch.autograd.graph import saved_tensors_hooks

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner, describe
from exercises.autograd.evaluate.run_classifier import Classifier, Loss, modes_of, noting
from exercises.autograd.run import plain


def run(learner: Learner, case: dict) -> dict:
    """Have a classifier evaluated, perhaps with a call that raises; what it was like before and after."""
    with idle_card():
        stops = {"model": 0, "loss": 0, "loader": 0} | case["stops"]
        model, loss_fn = Classifier(case, stops["model"]).to(case["device"]), Loss(case["one_element"], stops["loss"])
        for name, module in model.named_modules():
            module.training = name not in case["asleep"]
        for parameter in model.parameters() if case["gradients"] else ():
            parameter.grad = torch.full_like(parameter, 7.0) if parameter.requires_grad else None
        loader = _loader(case, stops["loader"])
        before, gradients = _state_of(model), [parameter.grad for parameter in model.parameters()]
        packs: list[int] = []
        hooks = saved_tensors_hooks(lambda tensor: packs.append(1) or tensor.detach(), lambda tensor: tensor)
        torch.cuda.synchronize()
        with torch.set_grad_enabled(case["grad_mode"]), hooks, observe() as seen:
            found = _outcome_of_all(lambda: learner.evaluate(model, loader, loss_fn))
            torch.zeros(())
            stays = torch.is_grad_enabled() == case["grad_mode"] and not torch.is_inference_mode_enabled()
        return {
            **_plain_numbers(found),
            "before": before,
            "after": _state_of(model),
            "same": all(old is new.grad for old, new in zip(gradients, model.parameters())),
            "stays": stays,
            "packs": len(packs),
            "seen": seen.to_dict(),
        }


def _loader(case: dict, stops_at: int) -> Iterable:
    """A list, a generator, or an iterator that notes when it is asked."""
    where = case["device"] if case["placed"] else "cpu"
    batches = [(x.to(where), y.to(where)) for x, y in zip(case["xs"], case["ys"], strict=True)]
    if case["loader"] == "noting":
        return noting(batches, stops_at)
    return batches if case["loader"] == "list" else (list(batch) for batch in batches)


def _plain_numbers(found: dict) -> dict:
    """Numbers of a class derived from float, such as NumPy's, as floats; all else as it is."""
    returned = found.get("returned")
    if not isinstance(returned, dict):
        return found
    return found | {"returned": {str(key): plain(value) for key, value in returned.items()}}


def _outcome_of_all(call: Callable) -> dict:
    """As ``outcome``; a KeyboardInterrupt too."""
    try:
        return outcome(call)
    except KeyboardInterrupt as error:
        return {"error": describe(error)}


def _state_of(model: Classifier) -> dict:
    """What an evaluation leaves alone."""
    return {
        "modes": modes_of(model),
        "tensors": [tensor.detach().cpu().clone() for tensor in (*model.parameters(), *model.buffers())],
        "gradients": [
            None if parameter.grad is None else parameter.grad.cpu().clone() for parameter in model.parameters()
        ],
        "trained": [parameter.requires_grad for parameter in model.parameters()],
    }
