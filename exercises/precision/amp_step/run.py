"""E8.3 amp_step: what runs beside the learner's function."""

from collections.abc import Callable

import torch

from autograder.protocol.event_sink import emit_note
from autograder.runner.card import at_work, idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.precision.amp_step.run_amp import Reader, note_steps, scale_of, use_noted


def run(learner: Learner, case: dict) -> dict:
    """Take the steps in one block; what each call left behind is read where no instrument sees it."""
    with idle_card():
        scaler = torch.amp.GradScaler("cuda", case["scale"], growth_interval=2) if case["scale"] else None
        if case["used"]:
            scaler.scale(torch.ones((), device="cuda"))  # from then on its scale lies on the device
        with use_noted(scaler):
            return _stepped(learner, case, scaler)


def _stepped(learner: Learner, case: dict, scaler: torch.amp.GradScaler | None) -> dict:
    model = Reader(case["weights"], case["factors"], case["frozen"], case["strided"])
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(_groups(trained, case), lr=case["lr"], momentum=case["momentum"])
    note_steps(optimizer)
    batches = [(_laid_out(x, case), _laid_out(y, case)) for x, y in zip(case["xs"], case["ys"], strict=True)]
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    stale = [torch.full_like(parameter, 7.0) for parameter in model.parameters()] if case["stale"] else []
    for parameter, gradient in zip(model.parameters(), stale):
        parameter.grad = gradient
    more = {"scaler": scaler, "max_norm": case["max_norm"]}
    before = [parameter.grad for parameter in model.parameters()]
    step = lambda batch: learner.amp_step(model, optimizer, batch, getattr(torch, case["dtype"]), **more)
    torch.cuda.synchronize()
    return {
        **_steps(step, batches, scaler),
        "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
        "gradients": [parameter.grad.cpu() if parameter.grad is not None else None for parameter in trained],
        "left": any(parameter.grad is not None for parameter in frozen),
        "kept": all(gradient is parameter.grad for gradient, parameter in zip(before, model.parameters())),
        "stale": [gradient.cpu() for gradient in stale],
    }


def _steps(step: Callable, batches: list, scaler: torch.amp.GradScaler | None) -> dict:
    """Of each call its loss; noted are the scale, whether autocast was left on, and whether the card was still at work in the end."""
    losses = []
    still_at_work = at_work()
    with observe() as seen:
        try:
            for batch in batches:
                found = outcome(lambda batch=batch: step(batch))
                if "error" in found:
                    break
                losses.append(found["returned"])
                emit_note("called", [scale_of(scaler), torch.is_autocast_enabled("cuda")])
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.clear_autocast_cache()
            emit_note("returned", still_at_work())
    error = {"error": found["error"]} if "error" in found else {}
    return {
        **error,
        "losses": [_described(loss) for loss in losses],
        "seen": seen.to_dict(),
    }


def _groups(parameters: list, case: dict) -> list:
    """All parameters, or the biases in a group of their own, with twice the rate."""
    if not case["groups"]:
        return parameters
    by_kind = [[p for p in parameters if (p.ndim == 1) == is_bias] for is_bias in (False, True)]
    return [{"params": by_kind[0]}, {"params": by_kind[1], "lr": 2 * case["lr"]}]


def _laid_out(tensor: torch.Tensor, case: dict) -> torch.Tensor:
    """On the card, every other element of its memory where the case says so."""
    return torch.stack([tensor.cuda()] * 2, -1)[..., 0] if case["strided"] else tensor.cuda()


def _described(loss: object) -> object:
    """A tensor on the host with what is lost on the way: whether it was on the card, and needed a gradient."""
    if not isinstance(loss, torch.Tensor):
        return loss
    return {"value": loss.detach().cpu(), "on_card": loss.is_cuda, "graph": loss.requires_grad}
