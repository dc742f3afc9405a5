"""E8.2 dynamic_scaler: what runs beside the learner's function."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from autograder.runner.card import idle_card
from autograder.runner.observed import observe
from autograder.runner.outcome import outcome
from autograder.runner.scenario_runner import Learner, describe


def run(learner: Learner, case: dict) -> dict:
    """Play one step of a job, or begin one; the steps to come are not here yet."""
    if "many" in case:
        return _many_steps(learner, case["many"])
    if "job" in case:
        _jobs.append(Job(learner, case["job"]))
    try:
        return _jobs[-1].step(case["actions"])
    finally:
        if case["last"]:
            _jobs.pop().close()


_jobs: list["Job"] = []
"""Holds the one under way: cases are its steps, and each is sent when the one before has been judged."""


_METHODS = ("scale", "unscale_", "step", "update", "get_scale")


class Job:
    """Parameters and their optimizers on a virtual card, and the scaler of the learner's."""

    def __init__(self, learner: Learner, job: dict) -> None:
        self._card, self._on = ExitStack(), job["on"]
        self._card.enter_context(idle_card())
        self._parameters = [[torch.nn.Parameter(p.to(self._on)) for p in group] for group in job["parameters"]]
        for parameter in sum(self._parameters, []) if job["half"] else ():
            parameter.register_hook(_through_half)
        self._optimizers = [
            getattr(torch.optim, name)([{"params": [p]} for p in group] if job["grouped"] else group, **options)
            for group, (name, options) in zip(self._parameters, job["optimizers"], strict=True)
        ]
        made = _made_by(lambda: learner.dynamic_scaler(**job["scaler"]))
        self._lacks, self._scaler = _lacks(made), made.get("returned")
        self._beside = Beside(learner, job["beside"]) if job["beside"] and not self._lacks else None

    def close(self) -> None:
        """Go back to the card that was on before."""
        self._card.close()

    def step(self, actions: list[dict]) -> dict:
        """What each action came to, and what holds afterwards."""
        if self._lacks:
            return self._lacks
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        self._gradients = []
        actions = [action | {"by": self._handed(action["by"])} for action in actions]
        torch.cuda.synchronize()
        before = [_on_host(self._all()), self._state()]
        with observe() as seen:
            outcomes = [getattr(self, f"_{action['do']}")(**action["by"]) for action in actions]
        after = [_on_host(self._all()), self._state()]
        gradients = [gradient if gradient is None else gradient.detach().cpu() for gradient in self._gradients]
        told = {"before": before, "after": after, "gradients": gradients, "get_scale": outcome(self._scaler.get_scale)}
        return told | {"outcomes": [_told(each) for each in outcomes], "seen": seen.to_dict()}

    def _handed(self, by: dict) -> dict:
        """Gradients where the parameters are: to wait for a copy is no fault of the learner's."""
        if "gradients" not in by:
            return by
        return by | {"gradients": [g if g is None else g.to(self._on) for g in by["gradients"]]}

    def _all(self) -> list[torch.nn.Parameter]:
        return sum(self._parameters, [])

    def _state(self) -> list[dict]:
        """Of each parameter's optimizer: step counters and moments, None where there is none yet."""
        pairs = ((optimizer, p) for optimizer, group in zip(self._optimizers, self._parameters) for p in group)
        states = (optimizer.state.get(p, {}) for optimizer, p in pairs)
        return [
            {key: value.detach().cpu().clone() for key, value in state.items() if isinstance(value, torch.Tensor)}
            for state in states
        ]

    def _backward(self, gradients: list, loss: str) -> dict:
        """A loss whose gradients, before they are scaled, are these."""
        value = sum((p * g).sum() for p, g in zip(self._all(), gradients, strict=True) if g is not None)
        scaled = outcome(lambda: self._scaler.scale(value.to(getattr(torch, loss))))
        if isinstance(tensor := scaled.get("returned"), torch.Tensor) and tensor.requires_grad and tensor.ndim == 0:
            tensor.backward()
        self._gradients = [p.grad for p in self._all()]
        return scaled

    def _unscale(self, of: int) -> dict:
        return outcome(lambda: self._scaler.unscale_(self._optimizers[of]))

    def _step(self, of: int, **clipped: float) -> dict:
        return outcome(lambda: self._scaler.step(self._optimizers[of], **clipped))

    def _update(self) -> dict:
        return outcome(self._scaler.update)

    def _other(self, finite: bool) -> dict:
        return outcome(lambda: self._beside.step(finite))

    def _clip(self, of: int, max_norm: float) -> dict:
        torch.nn.utils.clip_grad_norm_(self._parameters[of], max_norm)
        return {}

    def _mend(self, of: int) -> dict:
        for parameter in self._parameters[of]:
            if parameter.grad is not None:
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)
        return {}


class Beside:
    """Another scaler, with a parameter of its own on the host."""

    def __init__(self, learner: Learner, scaler: dict) -> None:
        self._parameter = torch.nn.Parameter(torch.ones(1))
        self._optimizer = torch.optim.SGD([self._parameter], lr=0.0)
        self._scaler = learner.dynamic_scaler(**scaler)

    def step(self, finite: bool) -> None:
        """One step, of a gradient that is finite or is not."""
        self._parameter.grad = torch.tensor([1.0 if finite else torch.inf])
        self._scaler.step(self._optimizer)
        self._scaler.update()


def _made_by(make: Callable[[], Any]) -> dict:
    """As ``outcome``; a function that is missing or not written yet raises at every step of the job."""
    try:
        return outcome(make)
    except Exception as error:
        return {"error": describe(error)}


def _lacks(made: dict) -> dict | None:
    """What to tell of a scaler that was not made, or has not all of its methods; None where it can be used."""
    if "error" in made:
        return {"made": made}
    missing = [name for name in _METHODS if not callable(getattr(made["returned"], name, None))]
    return {"made": made, "missing": missing} if missing else None


def _through_half(gradient: torch.Tensor) -> torch.Tensor:
    """What becomes of a gradient in a backward pass of float16."""
    return gradient.half().float()


def _on_host(tensors: list) -> list:
    return [tensor.detach().cpu().clone() for tensor in tensors]


def _told(answer: dict) -> dict:
    value = answer.get("returned")
    return {"returned": value.detach().cpu()} if isinstance(value, torch.Tensor) else answer


def _many_steps(learner: Learner, steps: int) -> dict:
    """Clean steps with a scaler as it is by itself, on the host: its scale before the last of them, and after."""
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    made = _made_by(lambda: learner.dynamic_scaler())
    if lacks := _lacks(made):
        return lacks
    scaler = made["returned"]

    def run() -> list:
        scales = [scaler.get_scale()]
        for step in range(steps):
            if step == steps - 1:
                scales.append(scaler.get_scale())
            parameter.grad = torch.ones(1)
            scaler.unscale_(optimizer)
            scaler.update()
        return [*scales, scaler.get_scale()]

    return {"scales": outcome(run)}
