"""E2.1 train_step: cases and judge."""

import math
from collections.abc import Iterator
from itertools import zip_longest

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import changed_problem, count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.notes import noted, stretches
from gpulab import Observation

_ALL = ("step", "calls", "value", "memory", "host")
_SLACK = 2048
"""Bytes: a few scalars, each of which takes 512 of the allocator's."""
_ROWS = 128
"""So that an activation is many times the slack."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    first, second = sampler.shuffled("head", "body.0")
    everything = ("", "body", "body.0", "body.1", "head")
    yield _case(_ALL, sampler, asleep=everything, loss="one")
    yield _case(
        _ALL, sampler, torch.float64, asleep=(first,), optimizer="AdamW", groups=True, options={"weight_decay": 0.0}
    )
    yield _case(_ALL, sampler, asleep=("", second), options={"momentum": 0.5})
    yield _case(("gradients", "memory", "value", "host"), sampler, steps=2, options={"momentum": 0.9}, beside=True)
    yield _case(("gradients",), sampler, old=7.0, caller_keeps=True, options={"weight_decay": 0.5})
    yield _case(("gradients", "memory"), sampler, old=math.nan, groups=True)
    yield _case(
        ("gradients", "memory"),
        sampler,
        torch.float64,
        steps=2,
        old=-3.0,
        optimizer="AdamW",
        options={"weight_decay": 0.5},
    )
    for old in sampler.shuffled(None, 2.0):
        yield _case(
            ("errors",),
            sampler,
            loss="rows",
            old=old,
            optimizer=sampler.choice(("SGD", "AdamW")),
            raises="RuntimeError",
        )


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    dtype=torch.float32,
    steps: int = 1,
    options: dict = {},
    raises="",
    **others,
) -> Case:
    """``asleep``: the modules in evaluation mode; ``old``: what the gradients from before are filled with; ``beside``: as Network's."""
    width, out = sampler.integer(20, 30), sampler.integer(16, 24)
    sizes = [(width, width), (width,), (width, width), (width,), (out, width), (out,), (out, 4), (out,)]
    weights = [sampler.within_one(*size, dtype=dtype) for size in sizes]
    xs = [sampler.within_one(_ROWS + sampler.integer(0, 9), width, dtype=dtype) for _ in range(steps)]
    ys = [(3 + step) * sampler.within_one(len(x), out, dtype=dtype) for step, x in enumerate(xs)]
    inputs = {"weights": weights, "xs": xs, "ys": ys, "options": {"lr": sampler.choice((0.125, 0.25)), **options}}
    usual = {
        "asleep": (),
        "optimizer": "SGD",
        "groups": False,
        "loss": "scalar",
        "old": None,
        "caller_keeps": False,
        "beside": False,
    }
    return Case(criteria, inputs | usual | others, raises)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    evidence = evidence | {"taken": _with_notes(evidence)}
    taken = evidence["taken"]
    if problem := count_problem(taken, len(case.inputs["xs"])):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif case.raises:
        if problem := error_problem(taken[0], case.raises) or _changed_problem(case.inputs, evidence):
            yield Failure("errors", problem)
    elif errors := [each["error"] for each in taken if "error" in each]:
        yield from (Failure(criterion, raised_problem(errors[0])) for criterion in case.criteria)
    else:
        parameters, gradients, loss = _reference(case.inputs)
        moved = _parameters_problem(parameters, evidence)
        problems = {
            "step": moved or _steps_problem(taken),
            "gradients": _gradients_problem(gradients, evidence) or moved or _kept_problem(case, evidence),
            "calls": _calls_problem(case.inputs, evidence),
            "value": _value_problem(taken, loss),
            "memory": _memory_problem(case.inputs, taken),
            "host": _host_problem(taken, Observation.from_dict(evidence["seen"])),
        }
        yield from (Failure(criterion, problems[criterion]) for criterion in case.criteria if problems[criterion])


def _with_notes(evidence: dict) -> list[dict]:
    """What each call came to, with what was noted meanwhile."""
    return [
        each | _use(stretch) for each, stretch in zip(evidence["taken"], stretches(evidence, "begins"), strict=True)
    ]


def _use(stretch: dict) -> dict:
    """Of one call: ``calls`` of the model, its ``forwards``, ``losses`` and the first one's ``value``, ``steps``."""
    losses, ended = noted(stretch, "loss"), noted(stretch, "stepped")
    steps = [step | {"us": us} for step, us in zip_longest(noted(stretch, "stepping"), ended)]
    counted = {"forwards": len(noted(stretch, "forward")), "losses": len(losses)}
    return {"calls": noted(stretch, "called"), "steps": steps, "value": losses[0] if losses else None, **counted}


def _reference(inputs: dict) -> tuple[list[torch.Tensor], list[torch.Tensor | None], torch.Tensor]:
    """Parameters after all steps, and the gradients of the last; in the order of the model's: spare, gain, layers.

    And the loss before the first step.
    """
    *layers, spare, gain = (weight.clone() for weight in inputs["weights"])
    trained = [parameter.requires_grad_() for parameter in (spare, *layers)]
    optimizer = getattr(torch.optim, inputs["optimizer"])(_groups(trained, inputs), **inputs["options"])
    first = None
    for x, y in zip(inputs["xs"], inputs["ys"], strict=True):
        optimizer.zero_grad()
        for weight, bias in (layers[0:2], layers[2:4]):
            x = torch.tanh(x @ weight.T + bias)
        loss = ((x @ layers[4].T + layers[5]) * gain - 2 * y).square().mean(-1).mean()
        loss.backward()
        first = loss.detach() if first is None else first
        optimizer.step()
    parameters = [spare, gain, *layers]
    return [parameter.detach() for parameter in parameters], [parameter.grad for parameter in parameters], first


def _groups(parameters: list[torch.Tensor], inputs: dict) -> list:
    if not inputs["groups"]:
        return parameters
    slow, fast = (p for p in parameters if p.ndim == 2), (p for p in parameters if p.ndim == 1)
    return [{"params": slow}, {"params": fast, "lr": 2 * inputs["options"]["lr"]}]


def _parameters_problem(expected: list[torch.Tensor], evidence: dict) -> str | None:
    found = evidence["parameters"]
    if problem := count_problem(found, len(expected)):
        return problem
    if not all(map(_near, found, expected)):
        return (
            "The parameters are not those of the steps: each takes one step of the optimizer, with this batch's gradients, which "
            "are there between `backward` and `step` and at no other time thrown away."
        )
    return None


def _near(found: object, expected: torch.Tensor) -> bool:
    if tensor_problem(found, expected):
        return False
    small = 1e-9 if expected.dtype == torch.float64 else 2e-4
    return bool((found - expected).norm() <= small * expected.norm() + small * 1e-3)


def _steps_problem(taken: list[dict]) -> str | None:
    if any(len(each["steps"]) != 1 for each in taken):
        return "The optimizer was not asked for one step in each call."
    return None


def _gradients_problem(expected: list[torch.Tensor | None], evidence: dict) -> str | None:
    found = evidence["gradients"]
    if problem := count_problem(found, len(expected)):
        return problem
    for gradient, right in zip(found, expected, strict=True):
        if right is None and gradient is not None:
            return (
                "A parameter that took no part in the loss holds a gradient, of zeros perhaps: by decay or momentum an "
                "optimizer moves it."
            )
        if right is not None and gradient is None:
            return (
                "After the call a parameter that took part holds no gradient: this batch's stays until the next call."
            )
        if right is not None and not _near(gradient, right):
            return (
                "A gradient is not this batch's alone: backward adds to what `.grad` holds, and NaN stays NaN whatever it "
                "is multiplied by."
            )
    return None


def _kept_problem(case: Case, evidence: dict) -> str | None:
    trained = len(case.inputs["weights"]) - 1
    if problem := count_problem(evidence["kept"], trained if case.inputs["caller_keeps"] else 0):
        return problem
    if any(not bool((gradient == case.inputs["old"]).all()) for gradient in evidence["kept"]):
        return "Old gradients were written to, and the caller still uses them: let go of them, and backward makes new ones."
    return None


def _calls_problem(inputs: dict, evidence: dict) -> str | None:
    for each in evidence["taken"]:
        if each["forwards"] != 1 or each["losses"] != 1:
            return "The model and the loss function were not called once each in a step."
        if len(each["calls"]) != 1:
            return "The model's hooks did not run: they belong to `model(x)`, not to `model.forward(x)`."
        if not each["calls"][0]["training"]:
            return (
                "A module was not in training mode when the model was called: `model.train()` sets every one, the model's "
                "own flag says nothing of the rest."
            )
        if not each["training"]:
            return "A module is no longer in training mode after the step."
    for batch, given in zip(evidence["batches"], zip(inputs["xs"], inputs["ys"]), strict=True):
        for part, right in zip(batch, given, strict=True):
            if problem := changed_problem(part, right, "its batch"):
                return problem
            if part.requires_grad:
                return "The function made its batch require a gradient."
    return None


def _value_problem(taken: list[dict], first: torch.Tensor) -> str | None:
    """``first``: the loss before the first step, by which what the loss function noted is known to be none made up."""
    for each in taken:
        if each["type"] != "float":
            return (
                f"The function returned a {each['type']}; expected a Python float: a tensor keeps memory, and perhaps the "
                "whole graph."
            )
        if each["returned"] != each["value"]:
            return "The number is not the loss that the step began with, every digit of it."
    if not _near(torch.tensor(taken[0]["value"], dtype=first.dtype), first):
        return "The number is not the loss of the batch that was given."
    return None


def _memory_problem(inputs: dict, taken: list[dict]) -> str | None:
    for x, each in zip(inputs["xs"], taken, strict=True):
        before, after = each["before"], each["after"]
        bare = before["all"] - before["gradients"] - before["state"]
        if not each["calls"] or each["calls"][0]["all"] > bare + before["state"]:
            return (
                "Old gradients were still held when the model was called: activations came on top of them. Dropped before, "
                "they make room."
            )
        step = each["steps"][0] if each["steps"] else {"all": math.inf, "gradients": 0, "state": 0}
        if step["all"] > bare + step["gradients"] + step["state"] + _returned_bytes(x, inputs):
            return (
                "The graph was still held when the optimizer stepped: backward frees it unless it is asked to retain it, "
                "or to make one of its own."
            )
        if each["alive"] or each["graphs"] or after["all"] > bare + after["gradients"] + after["state"] + _SLACK:
            return (
                "After the call something of the forward pass is still held: a loss that is a tensor holds its graph, "
                "wherever it is kept."
            )
    return None


def _returned_bytes(x: torch.Tensor, inputs: dict) -> int:
    """What the model and the loss function returned, and what the loss function took for it."""
    rows_of_output = len(x) * len(inputs["weights"][-1]) * x.itemsize
    return 2 * rows_of_output + _SLACK


def _host_problem(taken: list[dict], seen: Observation) -> str | None:
    if not seen.kernels:
        return "No work of the device was seen."
    for each, after in zip(taken, [*taken[1:], None], strict=True):
        until = after["began_us"] if after else math.inf
        waits = [wait for wait in seen.waits if each["began_us"] <= wait.start_us < until]
        if len(waits) != 1:
            return (
                "The host waits once in a step, when it reads the loss: each further look at a tensor of the device is a "
                "wait more."
            )
        if not each["steps"] or waits[0].start_us < each["steps"][-1]["us"]:
            return (
                "The host waited for the loss before the step was handed to the device, which then had nothing to do: read "
                "it at the end."
            )
    return None


def _changed_problem(inputs: dict, evidence: dict) -> str | None:
    *layers, spare, gain = inputs["weights"]
    for found, expected in zip(evidence["parameters"], (spare, gain, *layers), strict=True):
        if tensor_problem(found, expected) or not torch.equal(found, expected):
            return "A parameter changed, though the loss was none that autograd takes."
    if evidence["taken"][0]["steps"]:
        return "The optimizer stepped, though the loss was none that autograd takes."
    return None


exercise = Exercise(
    criteria=(
        Criterion("step", 1, "the parameters are those of one step of the optimizer, where no gradient is left over"),
        Criterion(
            "gradients", 2, "gradients left over do not count, and parameters that take no part have none", ("step",)
        ),
        Criterion("calls", 1, "the model is called once, with its hooks, every module in training mode", ("step",)),
        Criterion(
            "value", 1, "the loss comes back as a Python float, before the step and every digit of it", ("step",)
        ),
        Criterion(
            "memory", 2, "old gradients, graph and loss are each let go of when they are no longer needed", ("step",)
        ),
        Criterion("host", 1, "the host waits once, after the step was handed to the device", ("step",)),
        Criterion(
            "errors", 1, "a loss of several elements is refused as autograd does it, and nothing changes", ("step",)
        ),
    ),
    cases=_cases,
    judge=_judge,
)
