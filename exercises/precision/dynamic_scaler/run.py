"""E8.2 dynamic_scaler: what runs beside the learner's function."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from autograder.protocol.event_sink import emit_note
from autograder.runner.card import at_work, idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner, describe
from exercises.precision.dynamic_scaler.shared import Optimized


def run(learner: Learner, case: dict) -> dict:
    """Play one step of a job, or begin one; the steps to come are not here yet."""
    if "many" in case:
        return _many_steps(learner, case["many"])
    if "job" in case:
        _jobs.append(Job(learner, case["job"]))
    try:
        return _jobs[-1].play(case["actions"])
    finally:
        if case["last"]:
            _jobs.pop().card.close()


_jobs: list["Job"] = []
"""Holds the one under way: cases are its steps, and each is sent when the one before has been judged."""
_METHODS = ("scale", "unscale_", "step", "update", "get_scale")


class Job(Optimized):
    """What is trained, on a virtual card or beside it, and the scaler of the learner's. Actions are methods."""

    def __init__(self, learner: Learner, job: dict) -> None:
        self.card, self._on = ExitStack(), job["on"]
        self.card.enter_context(idle_card())
        super().__init__(job, job["on"])
        for parameter in self.parameters if job["half"] else ():
            parameter.register_hook(lambda gradient: gradient.half().float())  # as in a backward pass of float16
        self._scaler, self._lacks = _made(lambda: learner.dynamic_scaler(**job["scaler"]))
        if job["beside"] and not self._lacks:
            self._beside, self._alone = learner.dynamic_scaler(**job["beside"]), _alone()

    def play(self, actions: list[dict]) -> dict:
        """What each action came to, and what holds afterwards."""
        if self._lacks:
            return self._lacks
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self._gradients = [None] * len(self.parameters)
        actions = [action | {"by": self._handed(action["by"])} for action in actions]
        torch.cuda.synchronize()
        before = self.values()
        with observe() as seen:
            outcomes = [self._played(action) for action in actions]
        return {
            "outcomes": [_told(each) for each in outcomes],
            "before": before,
            "after": self.values(),
            "states": self.states(),
            "gradients": [_found(*pair) for pair in zip(self._gradients, self.parameters)],
            "get_scale": outcome(self._scaler.get_scale),
            "seen": seen.to_dict(),
        }

    def _played(self, action: dict) -> dict:
        """Behind work of the card's: noted is each action that came back when that was over."""
        still_at_work = at_work()
        came_to = outcome(lambda: getattr(self, action["do"])(**action["by"]))
        if not still_at_work():
            emit_note("waited")
        return came_to

    def _handed(self, by: dict) -> dict:
        """Gradients where the parameters are: to wait for a copy is no fault of the learner's."""
        return by | {key: [g if g is None else g.to(self._on) for g in by[key]] for key in by if key == "gradients"}

    def backward(self, gradients: list, loss: str) -> object:
        """A loss whose gradients, before they are scaled, are these."""
        value = sum((p * g).sum() for p, g in zip(self.parameters, gradients, strict=True) if g is not None)
        scaled = self._scaler.scale(value.to(getattr(torch, loss)))
        if isinstance(scaled, torch.Tensor) and scaled.requires_grad and scaled.ndim == 0:
            scaled.backward()
        self._gradients = [p.grad for p in self.parameters]
        return scaled

    def unscale(self, of: int) -> object:
        return self._scaler.unscale_(self.optimizers[of])

    def step(self, of: int, **clipped: float) -> object:
        return self._scaler.step(self.optimizers[of], **clipped)

    def update(self) -> object:
        return self._scaler.update()

    def other(self, finite: bool) -> None:
        """Another scaler's step, with a parameter of its own, whose gradient is finite or is not."""
        parameter, optimizer = self._alone
        parameter.grad = torch.tensor([1.0 if finite else torch.inf])
        self._beside.step(optimizer)
        self._beside.update()


def _alone() -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    """A parameter on the host, and an optimizer that leaves it as it is."""
    parameter = torch.nn.Parameter(torch.ones(1))
    return parameter, torch.optim.SGD([parameter], lr=0.0)


def _made(make: Callable[[], Any]) -> tuple[Any, dict | None]:
    """A scaler, and what to tell of one that was not made, or has not all of its methods; None where it can be used.

    Also of a function that is missing or not written yet: so it fails every step of a job.
    """
    try:
        made = outcome(make)
    except Exception as error:
        made = {"error": describe(error)}
    missing = [name for name in _METHODS if not callable(getattr(made.get("returned"), name, None))]
    return made.get("returned"), {"made": made, "missing": missing} if missing else None


def _found(gradient: torch.Tensor | None, parameter: torch.nn.Parameter) -> torch.Tensor | None:
    """The gradient of the backward pass, as it is now; where there was none, what the parameter has."""
    gradient = parameter.grad if gradient is None else gradient
    return gradient if gradient is None else gradient.detach().cpu()


def _told(answer: dict) -> dict:
    value = answer.get("returned")
    return {"returned": value.detach().cpu()} if isinstance(value, torch.Tensor) else answer


def _many_steps(learner: Learner, steps: int) -> dict:
    """Clean steps with a scaler as it is by itself, on the host: its scale before the last of them, and after."""
    parameter, optimizer = _alone()
    scaler, lacks = _made(lambda: learner.dynamic_scaler())
    if lacks:
        return lacks

    def run() -> list:
        scales = [scaler.get_scale()]
        for _ in range(steps):
            parameter.grad = torch.ones(1)
            scaler.unscale_(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return [scales[0], *scales[-2:]]

    return {"scales": outcome(run)}
