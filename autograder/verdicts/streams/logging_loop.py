"""E6.2 train: cases and judge."""

from collections.abc import Iterator

import torch
from torch.nn.functional import mse_loss

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem, type_name
from gpulab import Observation
from gpulab.units import plural

_LIMIT = 100.0  # losses of ordinary steps stay below 20, of broken ones above 10,000
_TOLERANCE = 1e-4  # relative; float32 on another path of sums


def _train_cases(draw: Draw) -> Iterator[Case]:
    every = draw.integer(3, 5)
    about = ("metrics", "updates", "waits")
    yield _case(about, draw, steps=every * draw.integer(2, 4), every=every)
    yield _case(about, draw, steps=every * 2, every=every)
    yield _case(("edges",), draw, steps=every * 2 + draw.integer(1, every - 1), every=every)
    yield _case(("edges",), draw, steps=every - 1, every=every)
    yield _case(("edges",), draw, steps=0, every=every)


def _case(about: tuple[str, ...], draw: Draw, steps: int, every: int) -> Case:
    rows, width, out = draw.integer(5, 9), draw.integer(4, 7), draw.integer(2, 3)
    xs = [_small(draw, rows, width) for _ in range(steps)]
    ys = [_small(draw, rows, out) for _ in range(steps)]
    # Not in the last entry: beside a loss of a million, what the others should have been does not show.
    for step in draw.shuffled(range(min(steps, max(1, steps - every))))[: draw.integer(1, 2)]:
        ys[step] = ys[step] + 1000
    inputs = {"weight": _small(draw, out, width), "bias": _small(draw, out), "xs": xs, "ys": ys}
    return Case(about, inputs | {"lr": 0.05, "every": every, "limit": _LIMIT})


def _small(draw: Draw, *shape: int) -> torch.Tensor:
    """Distinct values between -1 and 1."""
    values = draw.tensor(*shape)
    return values / values.abs().max()


def _reference(inputs: dict) -> tuple[list[dict], list[torch.Tensor]]:
    """The log and the parameters, in float64."""
    weight, bias = (inputs[name].double().requires_grad_() for name in ("weight", "bias"))
    losses = [_step(weight, bias, x.double(), y.double(), inputs) for x, y in zip(inputs["xs"], inputs["ys"])]
    windows = [losses[at : at + inputs["every"]] for at in range(0, len(losses), inputs["every"])]
    log = [
        {"mean": sum(window) / len(window), "worst": max(window), "skipped": sum(loss > _LIMIT for loss in window)}
        for window in windows
    ]
    return log, [weight.detach(), bias.detach()]


def _step(weight: torch.Tensor, bias: torch.Tensor, x: torch.Tensor, y: torch.Tensor, inputs: dict) -> float:
    loss = mse_loss(x @ weight.T + bias, y)
    if loss <= inputs["limit"]:
        gradients = torch.autograd.grad(loss, (weight, bias))
        with torch.no_grad():
            for parameter, gradient in zip((weight, bias), gradients):
                parameter -= inputs["lr"] * gradient
    return loss.item()


def _judge_train(case: Case, evidence: dict) -> Iterator[Lost]:
    log, parameters = _reference(case.inputs)
    seen = Observation.from_dict(evidence["seen"])
    problems = {
        "metrics": _race_problem(seen) or _log_problem(log, evidence["log"]) or _unfetched_problem(seen, len(log)),
        "updates": _parameter_problem(parameters, [evidence["weight"], evidence["bias"]]),
        "waits": _waits_problem(seen, len(log)),
    }
    if problems["metrics"] and problems["updates"]:
        problems["metrics"] = "The losses are not those of the loop, since its parameters go another way."
    problems["edges"] = problems["metrics"]
    for criterion in case.about:
        if problems[criterion]:
            yield Lost(criterion, problems[criterion])


def _race_problem(seen: Observation) -> str | None:
    if not seen.races:
        return None
    return (
        "A number was used before it had arrived on the host: a copy with non_blocking=True returns at "
        "once, and its bytes are there only after a wait."
    )


def _unfetched_problem(seen: Observation, entries: int) -> str | None:
    """A float for each entry is the least that comes to the host, and no host knows it without a wait."""
    fetched = sum(copy.bytes for copy in seen.copies if copy.kind == "DtoH")
    if fetched >= 4 * entries and (seen.waits or not entries):
        return None
    return "The numbers of the log were not seen to come from the device: they come by a copy, and after a wait."


def _log_problem(due: list[dict], log: object) -> str | None:
    if not isinstance(log, list):
        return f"The function returned {type_name(log)}; a list is due."
    if len(log) != len(due):
        return "The log does not have one entry for each `every` steps and one for the steps left over."
    return next((problem for problem in map(_entry_problem, due, log) if problem), None)


def _entry_problem(due: dict, found: object) -> str | None:
    if not isinstance(found, dict) or set(found) != set(due):
        return 'An entry of the log is not a dictionary of "mean", "worst" and "skipped".'
    for key, value in due.items():
        if isinstance(found[key], bool) or not isinstance(found[key], (int, float)):
            return f'"{key}" is {type_name(found[key])}; a Python number is due.'
        if not abs(found[key] - value) <= _TOLERANCE * abs(value):
            return f'"{key}" is not that of its steps: an entry counts the steps since the one before, skipped ones included.'
    return None


def _parameter_problem(due: list[torch.Tensor], found: list) -> str | None:
    for right, parameter in zip(due, found):
        if tensor_problem(parameter, right.float()) or not torch.allclose(parameter.double(), right, 1e-3, 1e-4):
            return (
                "The parameters are not those of the loop: a step whose loss is above the limit changes nothing, "
                "every other step is taken once."
            )
    return None


def _waits_problem(seen: Observation, entries: int) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    if len(seen.waits) <= entries:
        return None
    line = next((str(wait.line) for wait in seen.waits if wait.line), "")
    return (
        f"The host waited {plural(len(seen.waits), 'time')} for {plural(entries, 'entry')} of the log, for example at "
        f"`{line:.80}`: a number, a condition and a print all fetch the value from the device."
    )


train = Exercise(
    "streams.train",
    criteria=(
        Criterion("metrics", 2, "each entry of the log has the mean, the worst loss and the skipped steps"),
        Criterion("updates", 2, "the parameters are those of the loop, skipped steps left out"),
        Criterion("waits", 3, "the host waits at most once for each entry of the log", ("metrics", "updates")),
        Criterion("edges", 1, "steps left over, few steps and none are logged", ("metrics",)),
    ),
    cases=_train_cases,
    judge=_judge_train,
)
