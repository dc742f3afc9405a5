"""Runs the learner's functions for the chapter "Precision" and records what they did."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from autograder.scenario_runner import Learner, describe
from autograder.scenarios.amp import NotingSGD, Reader, Scaler
from autograder.scenarios.card import idle_card
from autograder.scenarios.observed import observe, storage_address
from autograder.scenarios.outcome import outcome
from autograder.scenarios.update_stream import Stream
from gpulab.observe.authors import memory


def round_to(learner: Learner, case: dict) -> dict:
    """Round, and ask for the fields; either may raise."""
    x, fmt = case["x"], tuple(case["fmt"])
    given, lies_at = x.detach().clone(), storage_address(x)
    values = outcome(lambda: learner.round_to(x, fmt))
    fields = outcome(lambda: learner.float_fields(given, fmt))
    apart = not x.numel() or storage_address(values.get("returned")) != lies_at
    return {"round_to": values, "float_fields": _tuple_of(fields), "x": x, "apart": apart}


def _tuple_of(answer: dict) -> dict:
    """A list is no tuple; across the wire both would be lists."""
    if isinstance(answer.get("returned"), list):
        return {"returned": "a list"}
    return answer


def dynamic_scaler(learner: Learner, case: dict) -> dict:
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


def amp_step(learner: Learner, case: dict) -> dict:
    """Take the steps in one block; what each call left behind is read where no instrument sees it."""
    with idle_card():
        model = Reader(case["weights"], case["factors"], case["frozen"]).place()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = NotingSGD(_groups(trained, case), lr=case["lr"], momentum=case["momentum"])
        scaler = Scaler("cuda", case["scale"], growth_interval=2) if case["scale"] else None
        batches = [(x.cuda(), y.cuda()) for x, y in zip(case["xs"], case["ys"], strict=True)]
        stale = [torch.full_like(parameter, 7.0) for parameter in model.parameters()] if case["stale"] else []
        for parameter, gradient in zip(model.parameters(), stale):
            parameter.grad = gradient
        more = {"scaler": scaler, "max_norm": case["max_norm"]}
        before = [parameter.grad for parameter in model.parameters()]
        step = lambda batch: learner.amp_step(model, optimizer, batch, getattr(torch, case["dtype"]), **more)
        torch.cuda.synchronize()
        told = _steps(step, batches, optimizer, scaler)
        return {
            **told,
            "met": model.met,
            "regions": model.regions,
            "calls": scaler.calls if scaler else [],
            "parameters": [parameter.detach().cpu() for parameter in model.parameters()],
            "gradients": [parameter.grad.cpu() if parameter.grad is not None else None for parameter in trained],
            "left": any(parameter.grad is not None for parameter in model.parameters() if not parameter.requires_grad),
            "kept": all(gradient is parameter.grad for gradient, parameter in zip(before, model.parameters())),
            "stale": [gradient.cpu() for gradient in stale],
        }


def _steps(step: Callable, batches: list, optimizer: NotingSGD, scaler: Scaler | None) -> dict:
    """``after``: for each call the optimizer's steps so far, the scale, and whether autocast was left on."""
    losses, after = [], []
    with warnings.catch_warnings(record=True) as warned, observe() as seen:
        warnings.simplefilter("always")
        try:
            for batch in batches:
                found = outcome(lambda batch=batch: step(batch))
                if "error" in found:
                    break
                losses.append(found["returned"])
                after.append([optimizer.steps, scaler.now() if scaler else 0.0, torch.is_autocast_enabled("cuda")])
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.clear_autocast_cache()
    deprecated = [str(one.message) for one in warned if issubclass(one.category, FutureWarning | DeprecationWarning)]
    error = {"error": found["error"]} if "error" in found else {}
    return {
        **error,
        "losses": [_described(loss) for loss in losses],
        "after": after,
        "deprecated": deprecated,
        "seen": seen.to_dict(),
    }


def _groups(parameters: list, case: dict) -> list:
    """All parameters, or the biases in a group of their own, with twice the rate."""
    if not case["groups"]:
        return parameters
    by_kind = [[p for p in parameters if (p.ndim == 1) == is_bias] for is_bias in (False, True)]
    return [{"params": by_kind[0]}, {"params": by_kind[1], "lr": 2 * case["lr"]}]


def _described(loss: object) -> object:
    """A tensor on the host with what is lost on the way: whether it was on the card, and needed a gradient."""
    if not isinstance(loss, torch.Tensor):
        return loss
    return {"value": loss.detach().cpu(), "on_card": loss.is_cuda, "graph": loss.requires_grad}


def training_drift(learner: Learner, case: dict) -> dict:
    """Let the updates be applied as they come; a second time at the same address where the case says so."""
    with idle_card():
        base = case["base"].cuda()
        weight = base.as_strided(case["shape"], case["strides"], case["offset"]).requires_grad_(case["gradient"])
        if case["again"]:
            kept = memory(base).copy()
            memory(base)[:] = 0
            learner.training_drift(weight, Stream(weight, base, case["updates"][:1]))
            memory(base)[:] = kept
        stream = Stream(weight, base, case["updates"])
        address_before = storage_address(weight)
        torch.cuda.synchronize()
        with observe() as seen:
            found = outcome(lambda: learner.training_drift(weight, stream))
        stream.look()
        swallowed = found.get("returned")
        on_card = isinstance(swallowed, torch.Tensor) and swallowed.is_cuda
        error = {"error": found["error"]} if "error" in found else {}
        return {
            **error,
            "swallowed": swallowed.detach().cpu() if on_card else swallowed,
            "on_card": on_card,
            "same": storage_address(weight) == address_before
            and weight.dtype == torch.bfloat16
            and weight.grad_fn is None,
            **stream.told(),
            "seen": seen.to_dict(),
        }
