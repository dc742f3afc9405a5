"""E17.1 clip_global: its judge."""

import math
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem, type_name
from autograder.judge.ranks import stopped
from exercises.stability.clip_global.cases import ELEMENTS, cases, members, norm_of
from gpulab import Observation

Tensor = torch.Tensor
_NEAR = {torch.float32: 1e-5, torch.bfloat16: 1 / 100}
_LAUNCHES = 30
_SQUARES = {"float32": torch.float32, "float64": torch.float64}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.ranks:
        if problem := stopped(evidence) or _ranks_problem(case, evidence):
            yield Failure(case.criteria[0], problem)
        return
    if case.raises:
        if problem := error_problem(evidence, case.raises) or _kept_problem(case.inputs["grads"], evidence):
            yield Failure("errors", problem)
        return
    if "error" in evidence:
        yield from (Failure(criterion, raised_problem(evidence["error"])) for criterion in case.criteria)
        return
    grads, norm = case.inputs["grads"], norm_of(case.inputs["grads"])
    if case.criteria == ("finite",):
        if problem := _norm_problem(evidence, norm) or _kept_problem(grads, evidence):
            yield Failure("finite", problem)
        return
    if problem := _norm_problem(evidence, norm):
        yield Failure("norm", problem)
    if problem := _grads_problem(grads, norm, case.inputs["max_norm"], evidence) or _place_problem(evidence):
        yield Failure("clipped", problem)
    if "device" in case.criteria and (problem := _device_problem(grads, Observation.from_dict(evidence["seen"]))):
        yield Failure("device", problem)


def _norm_problem(evidence: dict, expected: float) -> str | None:
    norm = evidence["returned"]
    if not isinstance(norm, torch.Tensor) or not evidence["on_card"]:
        what = "a tensor on the host" if isinstance(norm, torch.Tensor) else type_name(norm)
        return f"The function returned {what}; the norm is due as a tensor on the card."
    if problem := tensor_problem(norm, torch.zeros(())):
        return problem
    value = float(norm)
    if not math.isfinite(expected):
        same = math.isnan(value) if math.isnan(expected) else value == expected
        return (
            None
            if same
            else "The norm of gradients that are not finite is not what their squares add up to: NaN, or infinity."
        )
    if math.isfinite(value) and abs(value - expected) <= 1e-4 * expected:
        return None
    if abs(value - expected) <= 0.02 * expected:
        return "The norm is rounded: squares of bfloat16 are to be added up in float32."
    return "The norm is not the root of the sum of all squares, of the gradients as they came."


def _kept_problem(grads: list, evidence: dict) -> str | None:
    after = evidence["grads"]
    if problem := count_problem(after, len(grads)):
        return problem
    for grad, now in zip(grads, after, strict=True):
        if grad is None or now is None:
            if grad is not now:
                return "A parameter without a gradient has one afterwards, or the other way round."
        elif tensor_problem(now, grad) or not torch.equal(now.nan_to_num(7e3), grad.nan_to_num(7e3)):
            return _SPOILT
    return None if evidence["same"] is True else _REPLACED


_SPOILT = (
    "Gradients have changed that were to stay as they are: where the norm is not finite or not greater than the limit, and where "
    "the call is refused. A factor of NaN spreads to every element."
)
_REPLACED = "`.grad` is another tensor than before: gradients are written in place."


def _grads_problem(grads: list, norm: float, max_norm: float, evidence: dict) -> str | None:
    if not norm > max_norm:
        return _kept_problem(grads, evidence)
    if problem := count_problem(evidence["grads"], len(grads)):
        return problem
    for grad, now in zip(grads, evidence["grads"], strict=True):
        if grad is None or now is None:
            if grad is not now:
                return "A parameter without a gradient has one afterwards, or the other way round."
        elif problem := tensor_problem(now, grad):
            return problem
        elif not _is_near(now, grad.double() * (max_norm / norm)):
            return "A gradient that is too long is not multiplied by max_norm / norm, one factor for all gradients and elements."
    return None if evidence["same"] is True else _REPLACED


def _is_near(now: Tensor, expected: Tensor) -> bool:
    return bool(((now.double() - expected).abs() <= _NEAR[now.dtype] * expected.abs()).all())


def _place_problem(evidence: dict) -> str | None:
    return (
        None
        if evidence["result_addresses"] == evidence["input_addresses"]
        else "The gradients lie in other memory than before: they are written in place."
    )


def _device_problem(grads: list, seen: Observation) -> str | None:
    if seen.waits:
        line = next((str(wait.line) for wait in seen.waits if wait.line), "")
        return f"The host waited for the card, for example at `{line:.80}`: the factor can be chosen on the card."
    if len(seen.kernels) > _LAUNCHES:
        return "There are launches for each parameter: one norm of a list, and one multiplication of a list, are one launch each."
    if not seen.kernels:
        return "No kernel ran on the card."
    least = min(grad.numel() for grad in grads)
    if least >= ELEMENTS and seen.peak_bytes >= sum(grad.nbytes for grad in grads) / 4:
        return (
            "The gradients were copied, into one flat tensor or into another dtype: that takes their memory once more."
        )
    return None


# ---- ranks


def _ranks_problem(case: Case, evidence: dict) -> str | None:
    results, traffic = evidence["results"], evidence["traffic"]
    if case.raises:
        if traffic.collectives:
            return "Something crossed before the limit was looked at."
        problems = (error_problem(result, case.raises) for result in results)
        return next(filter(None, problems), None) or _each_kept(case, results)
    for rank, (own, result) in enumerate(zip(case.per_rank_inputs, results, strict=True)):
        if "error" in result:
            return raised_problem(result["error"])
        together = norm_of(
            sum((case.per_rank_inputs[one]["grads"] for one in members(case.inputs["groups"], rank)), [])
        )
        if problem := _norm_problem(result, together):
            return f"{problem} With a group it is that of all its ranks' shards." if case.inputs["groups"] else problem
        if problem := _shard_problem(own, together, result):
            return problem
    if case.criteria == ("finite",):
        return None
    return _alike_problem(case, results) or _traffic_problem(case, traffic)


def _shard_problem(own: dict, together: float, result: dict) -> str | None:
    if not math.isfinite(together):
        return _kept_problem(own["grads"], result)
    return _grads_problem(own["grads"], together, own["max_norm"], result)


def _each_kept(case: Case, results: list[dict]) -> str | None:
    problems = (_kept_problem(own["grads"], result) for own, result in zip(case.per_rank_inputs, results, strict=True))
    return next(filter(None, problems), None)


def _alike_problem(case: Case, results: list[dict]) -> str | None:
    for ranks in case.inputs["groups"]:
        norms = [float(results[rank]["returned"].nan_to_num(-1.0)) for rank in ranks]
        if len(set(norms)) > 1:
            return "The ranks of a group do not have the same norm, to the last bit."
    return None


def _traffic_problem(case: Case, traffic: Traffic) -> str | None:
    entries = traffic.entries
    if not case.inputs["groups"]:
        return "Something crossed, though no group was given." if entries else None
    if sorted(entry.ranks for entry in entries) != sorted(map(tuple, case.inputs["groups"])):
        return "In each group one collective is due, among its ranks and no others, also of a rank without gradients."
    for collective in traffic.collectives:
        entry = collective.entry
        if (entry.operation, entry.reduces) != ("all_reduce", "SUM") or entry.dtype not in _SQUARES:
            return "What crosses is no all-reduce that sums squares in float32."
        if entry.bytes != _SQUARES[entry.dtype].itemsize:
            return "More than one element crosses: the sum of a rank's squares is one number."
        for rank, data in zip(entry.ranks, collective.given, strict=True):
            expected = norm_of(case.per_rank_inputs[rank]["grads"]) ** 2
            given = float(torch.frombuffer(bytearray(data), dtype=_SQUARES[entry.dtype]))
            if math.isfinite(expected) and not abs(given - expected) <= 1e-4 * expected:
                return "What a rank hands in is not the sum of the squares of its own gradients: norms do not add up, their squares do."
    return None


exercise = Exercise(
    criteria=(
        Criterion("norm", 2, "the global norm comes back, as a tensor on the card"),
        Criterion(
            "clipped",
            2,
            "gradients that are too long keep their direction and get the norm that is allowed; others stay",
            ("norm",),
        ),
        Criterion(
            "device",
            2,
            "the host never waits, launches do not grow with the parameters, and nothing is copied",
            ("clipped",),
        ),
        Criterion("shards", 1, "ranks with shards find one norm, by one all-reduce of one element", ("clipped",)),
        Criterion("finite", 1, "a norm that is not finite is returned, and no gradient changes", ("clipped",)),
        Criterion("errors", 1, "a limit that makes no sense is refused with ValueError", ("norm",)),
    ),
    cases=cases,
    judge=_judge,
)
