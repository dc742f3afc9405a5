"""E6.2 train: cases and judge."""

import math
from collections.abc import Iterator

import torch
from torch.nn.functional import mse_loss

from autograder.core.exercise import Criterion, Exercise, Failure
from autograder.judge.expect import tensor_problem, type_name
from exercises.streams.train.cases import STILL, Job, train_cases
from gpulab import Observation
from gpulab.observe import Kernel
from gpulab.units import plural

_TOLERANCE = 1e-4
"""Relative; float32 on another path of sums."""
_IDLE_US = 1.0
_SINCE = "an entry counts the steps since the one before, skipped ones included."
_COUNTED = {("at_limit", "skipped"): "a loss that equals the limit is not skipped."}
_FIRST = "The losses of the log are those with the first parameters; a step's loss is that with what the steps before have left."
_PATH = "The parameters are not those of the loop: "
_TOLD = {
    "": "a step whose loss is above the limit changes nothing, every other step is taken once.",
    "groups": "each parameter group has a learning rate of its own.",
    "stale": "they hold gradients of an earlier backward pass, and these are part of no step.",
    "at_limit": "a step whose loss equals the limit is taken, and whole; only a greater loss is skipped.",
    "drift": "a step is skipped by its loss with the parameters that the steps before it have left.",
}


def _reference(inputs: dict) -> tuple[list[dict], list[list[torch.Tensor]]]:
    """The log and the parameters, in float64."""
    layers = [[tensor.double().requires_grad_() for tensor in layer] for layer in inputs["layers"]]
    every, limit = inputs["every"], inputs["limit"]
    losses = [_step(layers, x.double(), y.double(), inputs) for x, y in zip(inputs["xs"], inputs["ys"])]
    windows = [losses[at : at + every] for at in range(0, len(losses), every)]
    log = [
        {"mean": sum(window) / len(window), "worst": max(window), "skipped": sum(loss > limit for loss in window)}
        for window in windows
    ]
    return log, [[tensor.detach() for tensor in layer] for layer in layers]


def _step(layers: list[list[torch.Tensor]], x: torch.Tensor, y: torch.Tensor, inputs: dict) -> float:
    for weight, bias in layers[:-1]:
        x = torch.tanh(x @ weight.T + bias)
    loss = mse_loss(x @ layers[-1][0].T + layers[-1][1], y)
    if loss <= inputs["limit"]:
        _descend(layers, loss, inputs)
    return loss.item()


def _descend(layers: list[list[torch.Tensor]], loss: torch.Tensor, inputs: dict) -> None:
    """One step; in groups, the biases go twice as fast."""
    gradients = iter(torch.autograd.grad(loss, [tensor for layer in layers for tensor in layer]))
    with torch.no_grad():
        for weight, bias in layers:
            weight -= inputs["lr"] * next(gradients)
            bias -= inputs["lr"] * (2 if inputs["groups"] else 1) * next(gradients)


def _judge_train(case: Job, evidence: dict) -> Iterator[Failure]:
    log, parameters = _reference(case.inputs)
    seen = Observation.from_dict(evidence["seen"])
    astray = _parameter_problem(parameters, evidence["layers"], case.about)
    unread = _race_problem(seen), _losses_problem(case, log, evidence["log"]), _uncopied_problem(seen, len(log))
    problems = {
        "metrics": next(filter(None, unread), None) or _late_problem(seen, evidence["returned_us"]),
        "updates": astray
        or _rounding_problem(case.inputs, log, evidence["layers"])
        or _stream_problem(evidence["stream"], seen),
        "waits": _unlaunched_problem(seen, len(case.inputs["xs"])) or _waits_problem(seen, len(log)),
    }
    problems["edges"] = problems["metrics"]
    if "edges" not in case.criteria:
        problems["waits"] = problems["waits"] or _uncopied_problem(seen, len(log))
    for criterion in case.criteria:
        # Other parameters have other losses: the log is judged where they are the loop's, or do not matter.
        if criterion == "metrics" and astray and case.inputs["lr"] != STILL:
            continue
        if problems[criterion]:
            yield Failure(criterion, problems[criterion])


def _race_problem(seen: Observation) -> str | None:
    if not seen.races:
        return None
    return (
        "A number was used before it had arrived on the host: a copy with non_blocking=True returns at "
        "once, and its bytes are there only after a wait."
    )


def _uncopied_problem(seen: Observation, entries: int) -> str | None:
    """A float for each entry is the least that comes to the host."""
    if sum(copy.bytes for copy in seen.copies if copy.kind == "DtoH") >= 4 * entries:
        return None
    return "The numbers of the log were not seen to come from the device: they come by a copy, and after a wait."


def _late_problem(seen: Observation, returned_us: float) -> str | None:
    if _last_us(seen) <= returned_us:
        return None
    return "The function returned before the numbers of the log had come to the host: a copy is there after a wait."


def _last_us(seen: Observation) -> float:
    """When the last number came to the host; 0 where none did."""
    return max((copy.end_us for copy in seen.copies if copy.kind == "DtoH"), default=0.0)


def _losses_problem(case: Job, expected: list[dict], log: object) -> str | None:
    problem = _log_problem(expected, log, case.about)
    if problem and not _log_problem(_reference(case.inputs | {"lr": 0.0})[0], log, case.about):
        return _FIRST
    return problem


def _log_problem(expected: list[dict], log: object, about: str) -> str | None:
    if not isinstance(log, list):
        return f"The function returned {type_name(log)}; expected a list."
    if len(log) != len(expected):
        return "The log does not have one entry for each `every` steps and one for the steps left over."
    problems = (_entry_problem(right, found, about) for right, found in zip(expected, log, strict=True))
    return next(filter(None, problems), None)


def _entry_problem(expected: dict, found: object, about: str) -> str | None:
    if not isinstance(found, dict) or set(found) != set(expected):
        return 'An entry of the log is not a dictionary of "mean", "worst" and "skipped".'
    for key, value in expected.items():
        if isinstance(found[key], bool) or not isinstance(found[key], (int, float)):
            return f'"{key}" is {type_name(found[key])}; expected a Python number.'
        if not math.isfinite(found[key]):
            return f'"{key}" is {found[key]}, and every loss is finite: a sum of large ones is beyond float32.'
        if not abs(found[key] - value) <= _TOLERANCE * abs(value):
            return f'"{key}" is not that of its steps: {_COUNTED.get((about, key), _SINCE)}'
    return None


def _parameter_problem(expected: list[list[torch.Tensor]], found: list, about: str) -> str | None:
    for right, parameter in zip(sum(expected, []), sum(found, []), strict=True):
        if tensor_problem(parameter, right.float()) or not torch.allclose(parameter.double(), right, 1e-4, 1e-5):
            return _PATH + _TOLD[about]
    return None


def _rounding_problem(inputs: dict, log: list[dict], after: list) -> str | None:
    """Where every step is skipped, not a bit of a parameter changes."""
    all_skipped = sum(entry["skipped"] for entry in log) == len(inputs["xs"])
    if all_skipped and not all(map(torch.equal, sum(inputs["layers"], []), sum(after, []))):
        return "Every step's loss was above the limit, and parameters have changed: a step taken and taken back is rounded."
    return None


def _stream_problem(current: int, seen: Observation) -> str | None:
    if any(kernel.stream != current for kernel in seen.kernels if kernel.name == "spin_kernel"):
        return "The model ran in another stream than the caller's current one."
    return None


def _unlaunched_problem(seen: Observation, steps: int) -> str | None:
    if sum(kernel.name == "spin_kernel" for kernel in seen.kernels) >= steps:
        return None
    return "Not every batch was seen to go through the model on the device."


def _waits_problem(seen: Observation, entries: int) -> str | None:
    if len(seen.waits) > entries:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return (
            f"The host waited {plural(len(seen.waits), 'time')} for {plural(entries, 'entry')} of the log, for example at "
            f"`{line:.80}`: a number, a condition and a print all fetch the value from the device."
        )
    if seen.races:
        return None  # who reads too early has not asked at all
    asked_for_the_last = entries > 0 and not any(wait.end_us >= _last_us(seen) - _IDLE_US for wait in seen.waits)
    if _pauses(seen) > entries or len(seen.waits) + asked_for_the_last > entries:
        return "The device stood idle between steps: to ask it again and again whether it is done is to wait."
    return None


def _pauses(seen: Observation) -> int:
    """How many steps began after their stream had run empty, of kernels and of copies, but for the first."""
    pauses, ends = 0, {}
    copies = [copy for copy in seen.copies if copy.start_us is not None]
    for work in sorted((*seen.kernels, *copies), key=lambda work: work.start_us):
        if isinstance(work, Kernel) and work.name == "spin_kernel" and work.stream in ends:
            pauses += work.start_us - ends[work.stream] > _IDLE_US
        ends[work.stream] = work.end_us
    return pauses


exercise = Exercise(
    criteria=(
        Criterion("metrics", 2, "each entry of the log has the mean, the worst loss and the skipped steps"),
        Criterion("updates", 2, "the parameters are those of the loop, without the skipped steps"),
        Criterion("waits", 3, "the host waits at most once for each entry of the log"),
        Criterion("edges", 1, "remaining steps, fewer steps than an entry and no steps are logged"),
    ),
    cases=train_cases,
    judge=_judge_train,
)
