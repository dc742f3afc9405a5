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
    yield _case(("dtypes", "updates", "host"), sampler, "bfloat16", 1, stale=True)
    yield _case(("dtypes", "updates", "host"), sampler, "bfloat16", 2, groups=True, momentum=0.9, lr=0.5)
    yield _case(
        ("dtypes", "updates", "scaler", "host"), sampler, "bfloat16", 1, scale=_scale(sampler), frozen=True, stale=True
    )
    yield _case(("dtypes", "scaler", "host"), sampler, "float16", 1, scale=_scale(sampler), stale=True, frozen=True)
    at = sampler.integer(0, 3)
    broken = {at: sampler.choice((math.inf, -math.inf, math.nan))}
    yield _case(
        ("scaler", "host"), sampler, "float16", 5, scale=_scale(sampler), broken=broken, groups=True, momentum=0.9
    )
    yield _case(("scaler",), sampler, "float16", 1, scale=2.0**22)
    for dtype in sampler.shuffled("bfloat16", "float16"):
        for max_norm in sampler.shuffled(0.02, 40.0):
            scale = _scale(sampler) if dtype == "float16" else None
            old = {"stale": True, "frozen": max_norm < 1}
            yield _case(
                ("clipping",), sampler, dtype, 1, scale=scale, max_norm=max_norm, groups=sampler.chance(0.5), **old
            )
    yield _case(("clipping",), sampler, "float16", 2, scale=_scale(sampler), max_norm=0.02, broken={0: math.inf})
    for dtype, scale in sampler.shuffled(
        ("float16", None), ("float32", None), ("float32", 64.0), ("float64", 64.0), ("float8_e4m3fn", None)
    ):
        yield _case(("errors",), sampler, dtype, 1, scale=scale, stale=True, raises="ValueError")


def _scale(sampler: Sampler) -> float:
    return 2.0 ** sampler.integer(8, 11)


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    dtype: str,
    steps: int,
    broken: dict[int, float] = {},
    raises="",
    **others,
) -> Case:
    """Drawn until bfloat16 moves no gradient by half of what the judge allows: where the rows' cancel, what is left is rounding."""
    while True:
        case = _drawn(criteria, sampler, dtype, steps, broken, raises, **others)
        if dtype != "bfloat16" or rounding(case.inputs) < _TOLERANCE / 2:
            return case


def _drawn(
    criteria: tuple[str, ...], sampler: Sampler, dtype: str, steps: int, broken: dict[int, float], raises: str, **others
) -> Case:
    """``broken``: the steps in which a gradient is not finite, and what it is. Of the others each has a factor of its own."""
    width, classes = sampler.integer(6, 10), sampler.integer(3, 5)
    factors = [broken.get(step, sampler.choice((0.25, 0.5, 2.0, 3.0))) for step in range(steps)]
    rows = [sampler.integer(6, 9) for _ in range(steps)]
    xs = [1000 + 3 * sampler.within_one(n, width) for n in rows]
    ys = [torch.tensor([sampler.integer(0, classes - 1) for _ in range(n)]) for n in rows]
    weights = [
        sampler.within_one(width, width),
        sampler.within_one(width),
        sampler.within_one(classes, width),
        sampler.within_one(classes),
    ]
    inputs = {
        "dtype": dtype,
        "weights": weights,
        "factors": factors,
        "xs": xs,
        "ys": ys,
        "lr": sampler.choice((0.0625, 0.125)),
    }
    usual = {"scale": None, "max_norm": None, "frozen": False, "stale": False, "groups": False, "momentum": 0.0}
    return Case(criteria, inputs | usual | others, raises)


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    seen = Observation.from_dict(evidence["seen"])
    if case.raises:
        if problem := error_problem(evidence, case.raises) or _unrefused_problem(case.inputs, evidence, seen):
            yield Failure("errors", problem)
        return
    if "error" in evidence:
        yield from (Failure(criterion, raised_problem(evidence["error"])) for criterion in case.criteria)
        return
    expected = reference(case.inputs)
    values = _loss_problem(expected, evidence["losses"]) or _values_problem(case.inputs, expected, evidence)
    problems = {
        "dtypes": _dtypes_problem(case.inputs, evidence, seen),
        "updates": values or _stale_problem(evidence),
        "scaler": _scaler_problem(case.inputs, expected, evidence)
        or (values if case.inputs["dtype"] == "float16" else None),
        "clipping": values,
        "host": _host_problem(case.inputs, evidence, seen),
    }
    for criterion in case.criteria:
        if problems[criterion]:
            yield Failure(criterion, problems[criterion])


def _unrefused_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    same = all(map(_equal, evidence["parameters"][2:], inputs["weights"]))
    if seen.kernels or noted(evidence, "scaler") or not same or not evidence["kept"]:
        return "The error came after something had run or changed: look at dtype and scaler first."
    return None


def _equal(found: object, expected: torch.Tensor) -> bool:
    return tensor_problem(found, expected) is None and torch.equal(found, expected)


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
    if any(not isinstance(loss, dict) or loss["value"].dtype != torch.float32 for loss in evidence["losses"]):
        return "The loss is not float32: outside of autocast it takes the dtype of the logits."
    if any(given != "float32" for given in noted(evidence, "given")):
        return "The model was given a batch that was cast before: what 16 bits cannot tell apart is lost before the model sees it."
    regions = noted(evidence, "backward")
    if any(regions) or any(noted(evidence, "engine")) or len(regions) != steps:
        return "The backward pass did not run outside of autocast: it runs in the dtypes that the forward pass chose."
    if any(left_on for _, left_on in noted(evidence, "called")):
        return "An autocast region is still open after the call."
    return None


def _loss_problem(expected: Steps, losses: list) -> str | None:
    for loss, right in zip(losses, expected.losses, strict=True):
        if not isinstance(loss, dict):
            return f"The function returned {type_name(loss)}; expected a torch.Tensor."
        if loss["value"].numel() != 1 or not abs(float(loss["value"].double().sum()) - right) <= 0.01 * abs(right):
            return "The loss is not this step's cross_entropy, before the update and without the scale."
    return None


def _values_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    for before, right, found in zip(start(inputs), expected.parameters, evidence["parameters"], strict=True):
        if tensor_problem(found, right):
            return "A parameter is not what it was in shape and dtype: parameters stay float32, autocast casts copies of them."
        if not _near(found - before, right - before) or (torch.equal(right, before) and not torch.equal(found, before)):
            return _WRONG_STEP
    if len(noted(evidence, "given")) != len(inputs["xs"]):
        return "The model was not called once in each step."
    for right, found in zip(expected.gradients, evidence["gradients"]):
        if not isinstance(found, torch.Tensor) or tensor_problem(found, right):
            return "A gradient is missing after the call, or is not float32."
        if not _near(found, right):
            return "A gradient is not this step's, unscaled and clipped."
    if evidence["left"]:
        return "A parameter that requires no gradient still holds an old one, which clip_grad_norm_ counts: drop those of the model."
    return None


_WRONG_STEP = (
    "The parameters are not those of the steps: each takes this step's gradient alone, unscaled before it is clipped, all "
    "together, and a step whose gradients are not finite changes nothing."
)


def _near(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((found - expected).norm() <= _TOLERANCE * expected.norm() + 1e-6)


def _stale_problem(evidence: dict) -> str | None:
    if any(not bool((gradient == 7).all()) for gradient in evidence["stale"]):
        return "The gradients from before were written to: set them to None, and the backward pass makes new ones."
    return None


def _scaler_problem(inputs: dict, expected: Steps, evidence: dict) -> str | None:
    calls, steps = noted(evidence, "scaler"), len(inputs["xs"])
    if inputs["dtype"] == "bfloat16":
        return "With bfloat16 the scaler is to be left alone: its range is float32's." if calls else None
    if any(calls.count(name) != steps for name in ("scale", "step", "update")) or calls.count("unscale_") > steps:
        return "In a float16 step the scaler scales, steps and updates once each, and unscales once at most."
    scales = [scale for scale, _ in noted(evidence, "called")]
    if counted_before(evidence, "stepped", each="called") != expected.taken:
        return "The optimizer was called where the scaler skips, or not where it steps: scaler.step alone decides."
    if scales != expected.scales:
        return "The scale after the step is wrong: the scaler must see the gradients as the backward pass left them."
    return None


def _host_problem(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    allowed = len(inputs["xs"]) if inputs["dtype"] == "float16" else 0
    if not seen.kernels:
        return "No work of the device was seen."
    if len(seen.waits) > allowed:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return (
            f"The host waited {len(seen.waits) - allowed} times more than a scaler has to, for example at `{line:.80}`."
        )
    if not allowed and noted(evidence, "returned") != [True]:
        return CAME_BACK_LATE
    if evidence["deprecated"]:
        return f"A deprecated function was called: {evidence['deprecated'][0]:.80}"
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
        Criterion("host", 1, "the host waits only in the scaler, and the loss stays on the device", ("updates",)),
        Criterion("errors", 1, "invalid dtypes and scalers are refused before anything runs", ("updates",)),
    ),
    cases=_cases,
    judge=_judge,
)
