"""E8.2 dynamic_scaler: its judge. A case is one step of a job."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.expect import error_problem, raised_problem, tensor_problem, type_name
from autograder.judge.notes import noted
from exercises.precision.dynamic_scaler.cases import DEFAULT_SCALE, Step, cases
from exercises.precision.dynamic_scaler.truth import LEAST, MOST
from gpulab import Observation
from gpulab.units import plural


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := _object_problem(case, evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif "many" in case.inputs:
        if problem := _many_problem(evidence["scales"]):
            yield Failure("growth", problem)
    elif not case.raises:
        seen = Observation.from_dict(evidence["seen"])
        for criterion in case.criteria:
            if problem := _library_problem(seen) or _problem(criterion, case, evidence, seen):
                yield Failure(criterion, problem)


def _problem(criterion: str, case: Step, evidence: dict, seen: Observation) -> str | None:
    if criterion == "waits":
        return _waits_problem(case, evidence, seen)
    return _calls_problem(case, evidence) or _PROBLEM[criterion](case, evidence)


def _object_problem(case: Case, evidence: dict) -> str | None:
    """Why there is no scaler, or why there is one."""
    if case.raises:
        return error_problem(evidence.get("made") or {}, case.raises, case.because)
    if "made" not in evidence:
        return None
    if "error" in evidence["made"]:
        return raised_problem(evidence["made"]["error"])
    return f"The function returned {type_name(evidence['made']['returned'])}, which lacks {', '.join(map(str, evidence['missing']))}."


def _library_problem(seen: Observation) -> str | None:
    if any("_amp_" in op.op for op in seen.ops) or any("_amp_" in kernel.name for kernel in seen.kernels):
        return "PyTorch's own scaler did the work: its class and its kernels may not be used here."
    return None


def _many_problem(scales: dict) -> str | None:
    if "error" in scales:
        return raised_problem(scales["error"])
    expected = [DEFAULT_SCALE, DEFAULT_SCALE, 2 * DEFAULT_SCALE]
    if scales["returned"] != expected:
        return "Without arguments the scale starts at 65536 and doubles after 2000 updates in a row without inf or NaN."
    return None


def _calls_problem(case: Step, evidence: dict) -> str | None:
    """Of errors that were not expected, or were."""
    outcomes, expected = evidence["outcomes"], case.expected["outcomes"]
    for action, outcome, right in zip(case.inputs["actions"], outcomes, expected, strict=True):
        if right == "RuntimeError" and (problem := error_problem(outcome, right)):
            return f"{action['do']}: {problem} {_OUT_OF_ORDER[action['do']]}"
        if not isinstance(right, str) and "error" in outcome:
            return raised_problem(outcome["error"])
    return None


_OUT_OF_ORDER = {
    "unscale": "Gradients that are divided twice are too small by the scale.",
    "step": "Until the update the step is taken.",
    "update": "There is nothing to go by: no gradients were looked at.",
}


def _gradients_problem(case: Step, evidence: dict) -> str | None:
    for action, outcome, expected in zip(case.inputs["actions"], evidence["outcomes"], case.expected["outcomes"]):
        if action["do"] == "backward" and (problem := _scaled_problem(outcome["returned"], expected)):
            return problem
    return _unscaled_problem(case, evidence) or _parameters_problem(case, evidence)


def _scaled_problem(found: object, expected: Tensor) -> str | None:
    if problem := tensor_problem(found, expected):
        return f"scale: {problem}"
    if found.isinf().any() and expected.isfinite().all():
        return "The scaled loss is infinite: it was multiplied in 16 bits; expected float32."
    if not torch.allclose(found, expected, 1e-3, 1e-3):
        return "scale does not return the loss times the scale."
    return None


def _unscaled_problem(case: Step, evidence: dict) -> str | None:
    pairs = zip(evidence["gradients"], case.expected["gradients"], strict=True)
    return next(filter(None, (_gradient_problem(*pair, case.expected["before"]) for pair in pairs)), None)


def _gradient_problem(found: object, expected: Tensor | None, scale: float) -> str | None:
    if expected is None:
        return None if found is None else "A parameter without a gradient has one now."
    if problem := tensor_problem(found, expected):
        return f"A gradient is gone or of another kind after the step: {problem}"
    close = lambda one, other: torch.allclose(one, other, 1e-4, 1e-9, equal_nan=True)
    if close(found, expected):
        return None
    if close(found * scale, expected):
        return "The gradients are divided by the scale twice."
    if close(found, expected * scale):
        return "The gradients are not divided by the scale, or not in place."
    return "The gradients after the step are not those of the loss: scaled with it, and divided by the scale once."


def _parameters_problem(case: Step, evidence: dict) -> str | None:
    for found, expected in zip(evidence["after"], case.expected["parameters"], strict=True):
        if tensor_problem(found, expected) or not torch.allclose(found, expected, 1e-3, 1e-5):
            return "The parameters are not those of one optimizer step with the unscaled gradients."
    return None


def _clip_problem(case: Step, evidence: dict) -> str | None:
    clips = any(action["by"].get("max_norm") is not None for action in case.inputs["actions"])
    problem = _gradients_problem(case, evidence)
    if problem and clips:
        return "After the step its gradients, or the parameters, are not those of unscaled gradients that were clipped to max_norm."
    return problem


def _skip_problem(case: Step, evidence: dict) -> str | None:
    for action, outcome, expected in zip(case.inputs["actions"], evidence["outcomes"], case.expected["outcomes"]):
        if action["do"] == "step" and outcome["returned"] is not expected:
            if type(outcome["returned"]) is not bool:
                return f"step returned {type_name(outcome['returned'])}; expected a bool, whether it took the step."
            if expected:
                return "A step was skipped though unscale_ found no inf and no NaN among its optimizer's gradients."
            return "A step was taken with an inf or a NaN among the gradients that unscale_ found."
    # Nothing may change, not by a bit, where no optimizer was to step.
    steps = any(expected is True for expected in case.expected["outcomes"])
    if not steps and not all(map(torch.equal, evidence["before"], evidence["after"])):
        return "A skipped step changed a parameter."
    pairs = zip(evidence["states"], case.expected["states"], strict=True)
    problem = next(filter(None, (_state_problem(*pair) for pair in pairs)), None)
    return problem or _parameters_problem(case, evidence)


def _state_problem(found: dict, expected: dict) -> str | None:
    if set(found) != set(expected):
        return "A skipped step leaves the optimizer's state alone, and a step that is taken makes it."
    for key, value in expected.items():
        if tensor_problem(found[key], value) or not torch.allclose(found[key], value, 1e-3, 1e-7):
            return f"The optimizer's {key} is not what the steps that are to be taken leave, each with its unscaled gradients."
    return None


def _scale_problem(case: Step, evidence: dict) -> str | None:
    if "error" in evidence["get_scale"]:
        return raised_problem(evidence["get_scale"]["error"])
    found, expected, before = evidence["get_scale"]["returned"], case.expected["scale"], case.expected["before"]
    if type(found) is not float:
        return f"get_scale returned {type_name(found)}; expected a float."
    if math.isclose(found, expected, rel_tol=1e-6):
        return None
    if expected < before:
        return "The scale did not halve once, to no less than 1, after gradients that were not finite."
    if expected > before:
        return (
            "The scale did not double after growth_interval updates in a row without inf or NaN, whatever "
            "the size of the gradients."
        )
    if expected == MOST and found > expected:
        return "The scale grew beyond 2**24."
    if expected == LEAST and found < expected:
        return "The scale fell below 1."
    return "The scale changed too early: the growth counter restarts after every change of the scale."


_ASKED = "The host came back when the device was done, more than once for each optimizer: to ask it again and again is to wait."


def _waits_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if all(kernel.name == "spin_kernel" for kernel in seen.kernels):
        return "No work of the device was seen."
    allowed = len({action["by"]["of"] for action in case.inputs["actions"] if action["do"] in ("unscale", "step")})
    if len(seen.waits) <= allowed:
        return None if len(noted(evidence, "waited")) <= allowed else _ASKED
    line = next((str(wait.line) for wait in seen.waits if wait.line), "")
    return (
        f"The host waited {plural(len(seen.waits), 'time')} in a step, for example at `{line:.80}`, where {allowed} would do: what was found "
        "in each gradient can be put together on the device."
    )


def _errors_problem(case: Step, evidence: dict) -> str | None:
    if problem := _scale_problem(case, evidence):
        return problem
    if problem := _unscaled_problem(case, evidence):
        return f"After a call out of order: {problem}"
    return _parameters_problem(case, evidence)


_PROBLEM = {
    "gradients": _gradients_problem,
    "skip": _skip_problem,
    "growth": _scale_problem,
    "backoff": _scale_problem,
    "clip": _clip_problem,
    "errors": _errors_problem,
}

_CRITERIA = (
    Criterion("gradients", 2, "the loss is scaled in float32 and the gradients are divided by the scale once"),
    Criterion(
        "skip",
        2,
        "a step with inf or NaN is skipped, the optimizer's state with it, and every other is taken",
        ("gradients",),
    ),
    Criterion("growth", 2, "the scale doubles after growth_interval updates in a row without inf or NaN, up to 2**24"),
    Criterion("backoff", 1, "the scale halves, once, after inf or NaN, down to 1"),
    Criterion("clip", 1, "gradients are clipped after they are unscaled", ("gradients",)),
    Criterion("waits", 1, "the host waits at most once for each optimizer", ("gradients", "skip")),
    Criterion("errors", 1, "calls out of order and invalid scales are refused", ("gradients",)),
)

exercise = Exercise(_CRITERIA, cases, _judge)
