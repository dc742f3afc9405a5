"""E6.2 train: cases and judge."""

import math
from collections.abc import Iterator

import torch
from torch.nn.functional import mse_loss

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import tensor_problem, type_name
from gpulab import Observation
from gpulab.observe import Kernel
from gpulab.units import plural

_TOLERANCE = 1e-4
"""Relative; float32 on another path of sums."""
_US = 800.0
"""Of the device for each step: so the host can run ahead."""
_IDLE_US = 1.0
_ALL = ("metrics", "updates", "waits")


def _train_cases(sampler: Sampler) -> Iterator[Case]:
    """``broken``: the steps whose loss is above the limit."""
    many = sampler.integer(10, 12)  # entries: more than a small ring has slots
    yield _case(_ALL, sampler, every=1, steps=many, broken=[sampler.integer(0, many - 2)], depth=2, side_stream=True)
    every = sampler.integer(2, 3)
    yield _case(_ALL, sampler, every=every, steps=2 * every, broken=[1], stale=True, groups=True)
    yield _case(_ALL, sampler, every=2, steps=4, broken=[0, 1], at_limit=2)
    yield _case(_ALL, sampler, every=2, steps=2, broken=[0, 1], stale=True, huge=True)
    yield _case(("edges", "waits"), sampler, every=3, steps=4, broken=[sampler.integer(0, 1)], depth=2)
    few = sampler.integer(4, 5)
    yield _case(("edges", "waits"), sampler, every=few, steps=few - 1, broken=[sampler.integer(0, 1)])
    yield _case(("edges", "waits"), sampler, every=few, steps=0, broken=[])


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    every: int,
    steps: int,
    broken: list[int],
    depth=1,
    at_limit=None,
    huge=False,
    **others,
) -> Case:
    """``at_limit``: a step whose loss is the limit exactly, at parameters that are zeros until then.

    ``huge``: a broken step's loss is finite in float32, and the sum of two is not.
    """
    width, out = sampler.integer(4, 7), 1 if huge else sampler.integer(2, 3)
    rows = [1 if huge else sampler.integer(5, 9) - step % 3 for step in range(steps)]
    xs, ys = [sampler.within_one(n, width) for n in rows], [sampler.within_one(n, out) for n in rows]
    limit = 100.0 if at_limit is not None else float(sampler.integer(50, 150))
    for step in broken:
        ys[step] = ys[step] + ((sampler.integer(20, 30) * 1e37) ** 0.5 if huge else 3 * limit**0.5)
    sizes = [width, *[sampler.integer(3, 6)] * (depth - 1), out]
    layers = [[sampler.within_one(wide, narrow), sampler.within_one(wide)] for narrow, wide in zip(sizes, sizes[1:])]
    if at_limit is not None:
        ys[at_limit] = torch.full_like(ys[at_limit], 10.0)
        layers = [[torch.zeros_like(tensor) for tensor in layer] for layer in layers]
    inputs = {"layers": layers, "xs": xs, "ys": ys, "lr": 0.05, "every": every, "limit": limit, "us": _US}
    return Case(criteria, inputs | {"stale": False, "groups": False, "side_stream": False} | others)


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


def _judge_train(case: Case, evidence: dict) -> Iterator[Failure]:
    log, parameters = _reference(case.inputs)
    seen = Observation.from_dict(evidence["seen"])
    problems = {
        "metrics": _race_problem(seen)
        or _log_problem(log, evidence["log"])
        or _unfetched_problem(seen, evidence["returned_us"], len(log)),
        "updates": _parameter_problem(parameters, evidence["layers"])
        or _rounding_problem(case.inputs, log, evidence["layers"])
        or _stream_problem(evidence["stream"], seen),
        "waits": _waits_problem(seen, len(log)),
    }
    if problems["metrics"] and problems["updates"]:
        problems["metrics"] = "The losses are not those of the loop, since its parameters go another way."
    problems["edges"] = problems["metrics"]
    for criterion in case.criteria:
        if problems[criterion]:
            yield Failure(criterion, problems[criterion])


def _race_problem(seen: Observation) -> str | None:
    if not seen.races:
        return None
    return (
        "A number was used before it had arrived on the host: a copy with non_blocking=True returns at "
        "once, and its bytes are there only after a wait."
    )


def _unfetched_problem(seen: Observation, returned_us: float, entries: int) -> str | None:
    """A float for each entry is the least that comes to the host, and no host knows it before it has come."""
    fetched = [copy for copy in seen.copies if copy.kind == "DtoH"]
    if sum(copy.bytes for copy in fetched) >= 4 * entries and _last_us(seen) <= returned_us:
        return None
    return "The numbers of the log were not seen to come from the device: they come by a copy, and after a wait."


def _last_us(seen: Observation) -> float:
    """When the last number came to the host; 0 where none did."""
    return max((copy.end_us for copy in seen.copies if copy.kind == "DtoH"), default=0.0)


def _log_problem(expected: list[dict], log: object) -> str | None:
    if not isinstance(log, list):
        return f"The function returned {type_name(log)}; expected a list."
    if len(log) != len(expected):
        return "The log does not have one entry for each `every` steps and one for the steps left over."
    return next((problem for problem in map(_entry_problem, expected, log) if problem), None)


def _entry_problem(expected: dict, found: object) -> str | None:
    if not isinstance(found, dict) or set(found) != set(expected):
        return 'An entry of the log is not a dictionary of "mean", "worst" and "skipped".'
    for key, value in expected.items():
        if isinstance(found[key], bool) or not isinstance(found[key], (int, float)):
            return f'"{key}" is {type_name(found[key])}; expected a Python number.'
        if not math.isfinite(found[key]):
            return f'"{key}" is {found[key]}, and every loss is finite: a sum of large ones is beyond float32.'
        if not abs(found[key] - value) <= _TOLERANCE * abs(value):
            return f'"{key}" is not that of its steps: an entry counts the steps since the one before, skipped ones included.'
    return None


def _parameter_problem(expected: list[list[torch.Tensor]], found: list) -> str | None:
    for right, parameter in zip(sum(expected, []), sum(found, []), strict=True):
        if tensor_problem(parameter, right.float()) or not torch.allclose(parameter.double(), right, 1e-4, 1e-5):
            return (
                "The parameters are not those of the loop: a step whose loss is above the limit changes nothing, "
                "every other step is taken once."
            )
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


def _waits_problem(seen: Observation, entries: int) -> str | None:
    if not seen.kernels and entries:
        return "No work of the device was seen."
    if len(seen.waits) > entries:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return (
            f"The host waited {plural(len(seen.waits), 'time')} for {plural(entries, 'entry')} of the log, for example at "
            f"`{line:.80}`: a number, a condition and a print all fetch the value from the device."
        )
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
        Criterion("waits", 3, "the host waits at most once for each entry of the log", ("metrics", "updates")),
        Criterion("edges", 1, "remaining steps, fewer steps than an entry and no steps are logged", ("metrics",)),
    ),
    cases=_train_cases,
    judge=_judge_train,
)
