"""E2.3 saved_bytes: what runs beside the learner's function."""

from collections.abc import Callable

import torch
from torch.autograd.graph import saved_tensors_hooks

from autograder.runner.card import idle_card
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner
from exercises.autograd.run import no_collector
from exercises.autograd.saved_bytes.run_programs import PROGRAMS, Kept, Watched, leaves


def run(learner: Learner, case: dict) -> dict:
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
