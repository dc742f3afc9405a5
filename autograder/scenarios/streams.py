"""Chapter "Asynchronous execution": what the learner's functions made the device do.

All cases run on a virtual card, where a race is found whether or not it strikes.
"""

from collections.abc import Callable

import torch

from autograder.proctor import Learner
from autograder.scenarios.card import idle_card
from autograder.scenarios.device_told import device_told
from autograder.scenarios.outcome import outcome
from gpulab import Observation

_CYCLES_PER_US = 1000  # of the virtual card, for torch.cuda._sleep


class Spins:
    """A function to be timed: its n-th call keeps the device busy for the n-th of ``us``."""

    def __init__(self, us: list[float]) -> None:
        self._us, self.calls = us, 0

    def __call__(self) -> None:
        us = self._us[min(self.calls, len(self._us) - 1)]
        self.calls += 1
        torch.cuda._sleep(int(us * _CYCLES_PER_US))


def honest_time(learner: Learner, case: dict) -> dict:
    """Have the calls timed, behind other work and in another stream where the case says so."""
    spins, counts = Spins(case["us"]), (case["warmup"], case["iters"])
    fn = lambda: spins()  # noqa: E731  a bare function: what it will do is not written on it
    with idle_card():
        if case["refused"]:
            return outcome(lambda: learner.honest_time(fn, *counts))
        with torch.cuda.stream(torch.cuda.Stream() if case["side_stream"] else None):
            torch.cuda._sleep(int(case["before_us"] * _CYCLES_PER_US))
            with device_told() as seen:
                result = learner.honest_time(fn, *counts)
    return {"result": result, "calls": spins.calls, "seen": seen.to_dict()}


def train(learner: Learner, case: dict) -> dict:
    """Train a linear model, watched; the parameters come back from the model itself."""
    with idle_card():
        model = torch.nn.Linear(case["weight"].shape[1], case["weight"].shape[0])
        model.load_state_dict({"weight": case["weight"], "bias": case["bias"]})
        model = model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"])
        batches = [(x.cuda(), y.cuda()) for x, y in zip(case["xs"], case["ys"], strict=True)]
        torch.cuda.synchronize()
        with device_told() as seen:
            log = learner.train(model, optimizer, batches, case["every"], case["limit"])
        torch.cuda.synchronize()
        after = [parameter.detach().cpu() for parameter in (model.weight, model.bias)]
    return {"log": log, "weight": after[0], "bias": after[1], "seen": seen.to_dict()}


def run_two_models(learner: Learner, case: dict) -> dict:
    """Play one robot's ticks, watched; ``outputs``: what the caller made of them, tick by tick."""
    with idle_card(), torch.no_grad():
        models = [_model(weight, us) for weight, us in zip(case["weights"], case["us"], strict=True)]
        raw = [case["image"].cuda(), case["state"].cuda()]
        torch.cuda.synchronize()
        seen, outputs = _TICKS[case["tick"]](lambda *inputs: learner.run_two_models(*models, *inputs), raw)
        torch.cuda.synchronize()
        return {"outputs": [_on_host(pair) for pair in outputs], "seen": seen.to_dict()}


Run = Callable[[torch.Tensor, torch.Tensor], object]


def _model(weight: torch.Tensor, us: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """One layer behind a kernel that fills one multiprocessor for ``us`` microseconds."""
    weight = weight.cuda()

    def model(x: torch.Tensor) -> torch.Tensor:
        torch.cuda._sleep(int(us * _CYCLES_PER_US))
        return torch.tanh(x @ weight)

    return model


def _inputs(raw: list[torch.Tensor]) -> list[torch.Tensor]:
    """Inputs that the current stream has yet to write."""
    torch.cuda._sleep(200 * _CYCLES_PER_US)
    return [tensor + 1 for tensor in raw]


def _late_inputs(run: Run, raw: list[torch.Tensor]) -> tuple[Observation, list]:
    """The inputs are still being written; the outputs are used after the host has waited."""
    with device_told() as seen:
        outputs = run(*_inputs(raw))
    torch.cuda.synchronize()
    return seen, [_used(outputs)]


def _early_use(run: Run, raw: list[torch.Tensor]) -> tuple[Observation, list]:
    """The inputs are ready; the outputs are used at once and let go, twice."""
    inputs = _inputs(raw)
    torch.cuda.synchronize()
    with device_told() as seen:
        used = [_used(run(*inputs)) for _ in range(2)]
    return seen, used


def _alone(run: Run, raw: list[torch.Tensor]) -> tuple[Observation, list]:
    """Nothing but the call."""
    inputs = _inputs(raw)
    torch.cuda.synchronize()
    with device_told() as seen:
        outputs = run(*inputs)
    torch.cuda.synchronize()
    return seen, [_used(outputs)]


def _two_callers(run: Run, raw: list[torch.Tensor]) -> tuple[Observation, list]:
    """Called from one stream and then from another; each reads late and lets go."""
    streams, used = [torch.cuda.Stream() for _ in range(2)], []
    with device_told() as seen:
        for stream in streams:
            with torch.cuda.stream(stream):
                outputs = run(*_inputs(raw))
                torch.cuda._sleep(3000 * _CYCLES_PER_US)
                used.append(_used(outputs))
                del outputs
    return seen, used


_TICKS = {"late inputs": _late_inputs, "early use": _early_use, "alone": _alone, "two callers": _two_callers}


def _used(outputs: object) -> object:
    """What the caller makes of the outputs, in its current stream."""
    if not isinstance(outputs, (list, tuple)):
        return outputs
    return [output * 2 if isinstance(output, torch.Tensor) else output for output in outputs]


def _on_host(used: object) -> object:
    if not isinstance(used, list):
        return used
    return [value.cpu() if isinstance(value, torch.Tensor) else value for value in used]
