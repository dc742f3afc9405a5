"""Runs the learner's functions for the chapter "Autograd as a memory system" and records what they did."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch.autograd.graph import saved_tensors_hooks

from autograder.scenario_runner import Learner, describe
from autograder.scenarios.autograd_evaluate import Classifier, Loader, Loss
from autograder.scenarios.autograd_saved import PROGRAMS, Kept, Watched, leaves
from autograder.scenarios.autograd_step import Loss as StepLoss
from autograder.scenarios.autograd_step import Network, Watch, left_over, now_us, parameter_groups
from autograder.scenarios.card import idle_card
from autograder.scenarios.library_calls import library_calls
from autograder.scenarios.observed import observe
from autograder.scenarios.outcome import outcome


def train_step(learner: Learner, case: dict) -> dict:
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


@contextmanager
def no_collector() -> Iterator[None]:
    """What a cycle holds stays in memory inside the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _one_step(step: Callable, batch: tuple, model: Network, loss_fn: StepLoss, watch: Watch) -> dict:
    """What one call came to; its result is held while the card is read."""
    watch.calls, watch.steps, loss_fn.calls, model.nodes = [], [], 0, []
    before, began_us = watch.holds(), now_us()
    found = outcome(lambda: step(batch))
    result = found.get("returned")
    found["type"] = "float" if isinstance(result, float) else type(result).__name__
    return {
        **found,
        "returned": _plain(result) if isinstance(result, float) else None,
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


def evaluate(learner: Learner, case: dict) -> dict:
    """Have a classifier evaluated, perhaps with a call that raises; what it was like before and after."""
    with idle_card():
        stops = {"model": 0, "loss": 0, "loader": 0} | case["stops"]
        model, loss_fn = Classifier(case, stops["model"]).to(case["device"]), Loss(case["one_element"], stops["loss"])
        for name, module in model.named_modules():
            module.training = name not in case["asleep"]
        for parameter in model.parameters() if case["gradients"] else ():
            parameter.grad = torch.full_like(parameter, 7.0) if parameter.requires_grad else None
        loader = _loader(case, model, stops["loader"])
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
            "calls": model.calls,
            "forwards": model.forwards,
            "values": loss_fn.values,
            "graphs": loss_fn.graphs,
            "packs": len(packs),
            "asked": getattr(loader, "asked", []),
            "seen": seen.to_dict(),
        }


def _loader(case: dict, model: Classifier, stops_at: int) -> Iterable:
    """A list, a generator, or an iterator that notes when it is asked."""
    where = case["device"] if case["placed"] else "cpu"
    batches = [(x.to(where), y.to(where)) for x, y in zip(case["xs"], case["ys"], strict=True)]
    if case["loader"] == "noting":
        return Loader(batches, model, stops_at)
    return batches if case["loader"] == "list" else (list(batch) for batch in batches)


def _plain_numbers(found: dict) -> dict:
    """Numbers of a class derived from float, such as NumPy's, as floats; all else as it is."""
    returned = found.get("returned")
    if not isinstance(returned, dict):
        return found
    return found | {"returned": {str(key): _plain(value) for key, value in returned.items()}}


def _plain(value: object) -> object:
    return float.__add__(value, 0.0) if isinstance(value, float) else value


def _outcome_of_all(call: Callable) -> dict:
    """As ``outcome``; a KeyboardInterrupt too."""
    try:
        return outcome(call)
    except KeyboardInterrupt as error:
        return {"error": describe(error)}


def _state_of(model: Classifier) -> dict:
    """What an evaluation leaves alone."""
    return {
        "modes": model.modes(),
        "tensors": [tensor.detach().cpu().clone() for tensor in (*model.parameters(), *model.buffers())],
        "gradients": [
            None if parameter.grad is None else parameter.grad.cpu().clone() for parameter in model.parameters()
        ],
        "trained": [parameter.requires_grad for parameter in model.parameters()],
    }


def saved_bytes(learner: Learner, case: dict) -> dict:
    """Ask about each function, under hooks of the caller's own."""
    with idle_card():
        return {"answers": [_asked_of(learner, question) for question in case["questions"]]}


def _asked_of(learner: Learner, question: dict) -> dict:
    """The answer, and what came of the function, its inputs and the caller's hooks and mode."""
    kept = Kept(learner.saved_bytes)
    inputs = [_input(question, grad) for grad in question["grads"]]
    fn, given = PROGRAMS[question["program"]](*inputs, kept)
    watched, known = Watched(fn, given), [tensor.requires_grad for tensor in leaves(given)]
    ask = lambda: outcome(lambda: learner.saved_bytes(watched.fn, *given))
    packed: list[int] = []
    hooks = saved_tensors_hooks(lambda tensor: packed.append(1) or tensor.detach(), lambda tensor: tensor)
    with no_collector(), torch.set_grad_enabled(question["grad_mode"]), hooks:
        answer = _on_card(ask, lambda: fn(*given), watched) if question["device"] == "cuda" else ask()
        stays = torch.is_grad_enabled() == question["grad_mode"]
        packed.clear()
        with torch.enable_grad():
            torch.ones(1, requires_grad=True).exp()
    return {
        **answer,
        "calls": watched.calls,
        "hooks": len(packed) == 1,
        "stays": stays,
        "found": [value.detach() if isinstance(value, torch.Tensor) else value for value in kept.found],
        "x": inputs[0].detach() if question["device"] == "cpu" else None,
        "untouched": [tensor.requires_grad and tensor.grad is None for tensor in leaves(given)] == known,
    }


def _on_card(ask: Callable, call: Callable, watched: Watched) -> dict:
    """The answer; how much more the card held at its peak than for the function alone, and what is left on it."""
    before, alone = torch.cuda.memory_allocated(), _peak_of(call)
    watched.calls.clear()
    torch.cuda.reset_peak_memory_stats()
    answer = ask()
    return answer | {
        "peak_more": torch.cuda.max_memory_allocated() - alone,
        "left": torch.cuda.memory_allocated() - before,
    }


def _input(question: dict, grad: bool) -> torch.Tensor:
    values = torch.linspace(-2, 2, question["rows"] * question["columns"], dtype=getattr(torch, question["dtype"]))
    return values.view(question["rows"], -1).to(question["device"]).requires_grad_(grad)


def _peak_of(call: Callable) -> int:
    """The most that the card held meanwhile."""
    torch.cuda.reset_peak_memory_stats()
    kept = call()
    peak = torch.cuda.max_memory_allocated()
    del kept
    return peak


def inplace_legal(learner: Learner, case: dict) -> dict:
    """Ask about each program; which libraries were called meanwhile."""
    with library_calls("torch", "numpy") as called:
        answers = [_answer_about(learner, program) for program in case["programs"]]
    return {"answers": answers, "called": sorted(called)}


def _answer_about(learner: Learner, program: list[list]) -> dict:
    steps = [tuple(step) for step in program]
    found = outcome(lambda: learner.inplace_legal(steps))
    if isinstance(found.get("returned"), list):
        found["returned"] = list(found["returned"])
    elif "returned" in found:
        found["returned"] = type(found["returned"]).__name__
    return {**found, "kept": steps == [tuple(step) for step in program]}
