"""E8.3 amp_step: cases and judge.

What is noted beside the learner, by its word: ``given``, the dtype of a batch that the model was called with; ``backward``,
whether autocast was on in a backward pass, and ``engine``, when it began; ``stepped``, the optimizer was; ``scaler``, the method that was called;
``called``, after each call of the learner's function: the scale, and whether autocast was left on; ``returned``, whether the
card was still at work when the last of them came back.
"""

import math
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import CAME_BACK_LATE, error_problem, raised_problem, tensor_problem, type_name
from autograder.judge.notes import counted_before, noted
from exercises.precision.amp_step.reference import Steps, reference, rounding, start
from gpulab import Observation

_TOLERANCE = 0.03
"""Of the length of a parameter's way, or of a gradient: another order of 16-bit sums."""
_PRODUCTS = {f"aten.{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv")}
_IN_FLOAT32 = {
    "aten._softmax",
    "aten._log_softmax",
    "aten.native_layer_norm",
    "aten.nll_loss_forward",
    "aten.logsumexp",
}
_LEAST_PRODUCTS = 5
"""Of a step: two forward, two backward for the second, and one or two for the first."""


def _cases(sampler: Sampler) -> Iterator[Case]:
    """The first criterion of a case is its own: an exception there costs that one alone. Those of float16 are the scaler's."""
    rich = {"groups": True, "frozen": True, "strided": True}
    used = lambda: {"scale": 2.0 ** sampler.integer(8, 11), "used": True}
    scale = lambda: {"scale": 2.0 ** sampler.integer(8, 11)}
    yield _case("host dtypes", sampler, "bfloat16", 1)
    yield _case("dtypes host", sampler, "bfloat16", 1, near=True)
    yield _case("scaler dtypes host", sampler, "float16", 1, near=True, **used())
    yield _case("updates dtypes host", sampler, "bfloat16", 2, stale=True, **rich, momentum=0.9, lr=0.5)
    yield _case("scaler updates dtypes host", sampler, "float16", 1, stale=True, frozen=True, **used())
    broken = {at: sampler.choice((math.inf, -math.inf, math.nan)) for at in (sampler.integer(0, 2), 4)}
    yield _case("scaler dtypes host", sampler, "float16", 5, broken=broken, groups=True, momentum=0.9, **scale())
    yield _case("scaler", sampler, "float16", 1, scale=2.0**22)
    yield _case("scaler", sampler, "float16", 1, max_norm=0.02, broken={0: math.inf}, **scale())
    yield _case("scaler dtypes host", sampler, "bfloat16", 1, max_norm=0.02, groups=True, **scale())
    for max_norm, others in sampler.shuffled((0.02, {"groups": True}), (0.0, {}), (40.0, {"frozen": True})):
        yield _case("scaler clipping dtypes host", sampler, "float16", 1, max_norm=max_norm, **used(), **others)
    for max_norm, others in sampler.shuffled((0.02, rich), (0.0, {}), (40.0, {})):
        yield _case("clipping dtypes host", sampler, "bfloat16", 1, max_norm=max_norm, **others)
    yield _case("errors", sampler, "bfloat16", 1)
    for dtype, scale in sampler.shuffled(
        ("float16", None), ("float32", None), ("float32", 64.0), ("float64", 64.0), ("float8_e4m3fn", None)
    ):
        because = "float16 needs a scaler" if dtype == "float16" else f"`dtype` is torch.{dtype}"
        yield _case("errors", sampler, dtype, 1, scale=scale, stale=True, raises="ValueError", because=because)


def _case(criteria: str, sampler: Sampler, dtype: str, steps: int, raises="", because="", **others) -> Case:
    """Drawn until bfloat16 moves no gradient by half of what the judge allows: where the rows' cancel, what is left is rounding."""
    while True:
        inputs = _drawn(sampler, dtype, steps, **others)
        if dtype != "bfloat16" or rounding(inputs) < _TOLERANCE / 2:
            return Case(tuple(criteria.split()), inputs, raises, because)


def _drawn(sampler: Sampler, dtype: str, steps: int, broken: dict[int, float] = {}, near=False, **others) -> dict:
    """``broken``: the steps in which a gradient is not finite, and what it is. Of the others each has a factor of its own.

    ``near``: rows that are equal in 16 bits; others are the same there, so that a cast of the batch costs nothing more.
    """
    width, classes = sampler.integer(6, 10), sampler.integer(3, 5)
    rows = [sampler.integer(6, 9) for _ in range(steps)]
    xs = [3 * sampler.within_one(n, width) for n in rows]
    inputs = {
        "dtype": dtype,
        "weights": [sampler.within_one(*shape) for shape in ((width, width), (width,), (classes, width), (classes,))],
        "factors": [broken.get(step, sampler.choice((0.25, 0.5, 2.0, 3.0))) for step in range(steps)],
        "xs": [1000 + x if near else x.bfloat16().float() for x in xs],
        "ys": [torch.tensor([sampler.integer(0, classes - 1) for _ in range(n)]) for n in rows],
        "lr": sampler.choice((0.0625, 0.125)),
    }
    usual = dict.fromkeys(("frozen", "stale", "groups", "strided", "used"), False)
    return inputs | usual | {"scale": None, "max_norm": None, "momentum": 0.0} | others


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    seen = Observation.from_dict(evidence["seen"])
    if case.raises:
        if problem := error_problem(evidence, case.raises, case.because) or _unrefused_problem(evidence, seen):
            yield Failure("errors", problem)
        return
    if "error" in evidence:
        yield Failure(case.criteria[0], raised_problem(evidence["error"]))
        return
    expected = reference(case.inputs)
    problems = {
        "dtypes": lambda: _dtypes_problem(case.inputs, evidence, seen),
        "updates": lambda: _updates_problem(case.inputs, expected, evidence),
        "scaler": lambda: _scaler_problem(case.inputs, expected, evidence),
        "clipping": lambda: _clipping_problem(case.inputs, expected, evidence),
        "host": lambda: _host_problem(case.inputs, evidence, seen),
        "errors": lambda: None if noted(evidence, "stepped") else "Arguments that are right were taken, and no step.",
    }
    for criterion in case.criteria:
        if problem := problems[criterion]():
            yield Failure(criterion, problem)


def _unrefused_problem(evidence: dict, seen: Observation) -> str | None:
    if seen.kernels or noted(evidence, "scaler") or not evidence["kept"]:
        return "The error came after something had run or changed: look at dtype and scaler first."
    return None


def _dtypes_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    steps, dtype = len(inputs["xs"]), inputs["dtype"]
    products = [op.dtype for op in seen.ops if op.op in _PRODUCTS]
    if len(products) < _LEAST_PRODUCTS * steps or any(found != dtype for found in products):
        return f"Not every matrix product ran in {dtype}: autocast covers the forward pass, and chooses for the backward pass too."
    if any(op.dtype != "float32" for op in seen.ops if op.op in _IN_FLOAT32):
        return (
            "A softmax, a normalisation or a part of the loss ran in 16 bits: outside of autocast they take the dtype of what "
            "they are given, and inside cross_entropy asks log_softmax for the dtype of its logits."
        )
    if any(isinstance(loss, dict) and loss["value"].dtype != torch.float32 for loss in evidence["losses"]):
        return "The loss is not float32: outside of autocast it takes the dtype of the logits."
    if any(given != "float32" for given in noted(evidence, "given")):
        return "The model was given a batch that was cast before: what 16 bits cannot tell apart is lost before the model sees it."
    if len(noted(evidence, "backward")) != steps:
        return "The backward pass did not run once in each step."
    if any(noted(evidence, "backward")) or any(noted(evidence, "engine")):
        return "The backward pass did not run outside of autocast: it runs in the dtypes that the forward pass chose."
    if any(left_on for _, left_on in noted(evidence, "called")):
        return "An autocast region is still open after the call."
    return None


def _updates_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    return (
        _loss_problem(expected, evidence["losses"])
        or _calls_problem(inputs, evidence)
        or _gradients_problem(inputs, expected, evidence)
        or _parameters_problem(inputs, expected, evidence)
    )


def _loss_problem(expected: Steps, losses: list) -> str | None:
    """Of its value alone; what else a loss is, ``host`` asks."""
    for loss, right in zip(losses, expected.losses, strict=True):
        value = loss["value"].double().sum() if isinstance(loss, dict) else loss
        if not isinstance(value, torch.Tensor | float | int):
            return f"The function returned {type_name(loss)}; expected a torch.Tensor."
        if not abs(float(value) - right) <= 0.01 * abs(right):
            return "The loss is not this step's cross_entropy, before the update and without the scale."
    return None


def _calls_problem(inputs: dict, evidence: dict) -> str | None:
    if len(noted(evidence, "given")) != len(inputs["xs"]):
        return "The model was not called once in each step."
    if any(not bool((gradient == 7).all()) for gradient in evidence["stale"]):
        return "The gradients from before were written to: set them to None, and the backward pass makes new ones."
    return None


def _gradients_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    for right, found in zip(expected.gradients, evidence["gradients"]):
        if not isinstance(found, torch.Tensor):
            return "A gradient is missing after the call."
        if tensor_problem(found, right):
            return "A gradient is not float32, or not of its parameter's shape."
        if not _near(found, right):
            return _what_a_gradient_is(found, right, inputs)
    if evidence["left"]:
        return "A parameter that requires no gradient holds one after the call: drop the old ones of all of the model's parameters."
    return None


def _what_a_gradient_is(found: torch.Tensor, right: torch.Tensor, inputs: dict) -> str:
    if _near(found, right + 7):
        return "A gradient from before was added to this step's: the backward pass adds to what it finds."
    if inputs["dtype"] == "float16" and _near(found, right * inputs["scale"]):
        return "A gradient is still multiplied by the scale after the call."
    return "A gradient is not this step's after the call."


def _parameters_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    for before, right, found in zip(start(inputs), expected.parameters, evidence["parameters"], strict=True):
        if tensor_problem(found, right):
            return "A parameter is not what it was in shape and dtype: parameters stay float32, autocast casts copies of them."
        if torch.equal(right, before) and not torch.equal(found, before):
            return "A parameter moved that requires no gradient, or in a step that changes nothing."
        if not _near(found - before, right - before):
            return "The parameters did not move as one step of the optimizer a call, with that call's gradients, moves them."
    return None


def _near(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((found - expected).norm() <= _TOLERANCE * expected.norm() + 1e-6)


def _scaler_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    calls, steps = noted(evidence, "scaler"), len(inputs["xs"])
    if inputs["dtype"] == "bfloat16":
        return "With bfloat16 the scaler is to be left alone: its range is float32's." if calls else None
    if any(calls.count(name) != steps for name in ("scale", "step", "update")) or calls.count("unscale_") > steps:
        return "In a float16 step the scaler scales, steps and updates once each, and unscales once at most."
    if len(noted(evidence, "given")) != steps:  # another call of the model has another factor
        return None
    if counted_before(evidence, "stepped", each="called") != expected.taken:
        return "The optimizer was called where the scaler skips, or not where it steps: scaler.step alone decides."
    if [scale for scale, _ in noted(evidence, "called")] != expected.scales:
        return "The scale after the step is wrong: the scaler must see the gradients as the backward pass left them."
    broken, found = ~expected.gradients[-1].isfinite(), evidence["gradients"][-1]
    if inputs["max_norm"] is None and isinstance(found, torch.Tensor) and found[broken].isfinite().any():
        return "After a step that the scaler skips, an inf or a NaN of its gradients has become a number."
    return None


def _clipping_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    if all(
        isinstance(one, torch.Tensor) for one in evidence["gradients"]
    ):  # where one is missing, another criterion says so
        found, right = (
            torch.cat([one.flatten().float() for one in ones]) for ones in (evidence["gradients"], expected.gradients)
        )
        if not _near(found, right):
            return _what_clipping_did(found, right, inputs["max_norm"])
    if _parameters_problem(inputs, expected, evidence):
        return "The parameters did not move by the clipped gradients: clip after unscaling, and before the step."
    return None


def _what_clipping_did(found: torch.Tensor, right: torch.Tensor, max_norm: float) -> str:
    norm, due = float(found.norm()), float(right.norm())
    told = f"the gradients have a norm of {norm:.3g}, all together, after the call"
    if norm > due * (1 + _TOLERANCE) and due > 0.9 * max_norm:
        return f"With max_norm={max_norm:g} {told}: the unscaled gradients of all groups share one bound."
    if abs(norm - due) > due * _TOLERANCE:
        return f"With max_norm={max_norm:g} {told}; expected {due:.3g}, the bound or, where it is less, their own norm."
    return "The gradients have the right norm, all together, and another direction: one factor shortens them all."


def _host_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    allowed = len(inputs["xs"]) if inputs["dtype"] == "float16" else 0
    if len(noted(evidence, "engine")) < len(inputs["xs"]) or not (
        noted(evidence, "stepped") or "step" in noted(evidence, "scaler")
    ):
        return "No step was seen on the device: a forward pass, a backward pass, and the optimizer's."
    if len(seen.waits) > allowed:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return (
            f"The host waited {len(seen.waits) - allowed} times more than a scaler has to, for example at `{line:.80}`."
        )
    if not allowed and noted(evidence, "returned") != [True]:
        return CAME_BACK_LATE
    for loss in evidence["losses"]:
        if not isinstance(loss, dict) or not loss["on_card"] or loss["value"].ndim or loss["graph"]:
            return "What came back is not a tensor of no dimensions on the device, without its graph."
    return None


exercise = Exercise(
    criteria=(
        Criterion(
            "dtypes",
            2,
            "matrix products run in 16 bits, softmax, normalisation and loss in float32, and backward outside autocast",
        ),
        Criterion("updates", 1, "parameters and gradients are those of the steps, in float32"),
        Criterion("scaler", 2, "float16 steps go through the scaler, once, and bfloat16 steps do not"),
        Criterion("clipping", 1, "unscaled gradients are clipped by their global norm"),
        Criterion("host", 1, "the host waits only in the scaler, and the loss stays on the device"),
        Criterion("errors", 1, "invalid dtypes and scalers are refused before anything runs"),
    ),
    cases=_cases,
    judge=_judge,
)
