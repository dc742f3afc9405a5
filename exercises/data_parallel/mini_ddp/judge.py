"""E14.1 mini_ddp: its judge.

Every rank asks for its own models and batches, which nobody else can know. What it handed in, and when, is on the
broker's record; its models after the call and its gradients after ``finish`` are what it says.
"""

from collections.abc import Iterator

import torch
from torch import nn

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.expect import tensor_problem
from autograder.judge.ranks import Launch, launches_of, marker_of, spans, stopped
from exercises.data_parallel.mini_ddp.buckets import buckets_problem, dtypes_problem
from exercises.data_parallel.mini_ddp.cases import cases
from exercises.data_parallel.mini_ddp.overlap import launched_problem
from exercises.data_parallel.mini_ddp.shared import built, held
from exercises.data_parallel.mini_ddp.training import Training, training

Tensor = torch.Tensor


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    results, collectives = evidence["results"], evidence["traffic"].collectives
    launches = [launches_of(collectives, rank) for rank in range(case.ranks)]
    if problem := _stopped(case, evidence) or _strange_problem(case, launches) or _forged_problem(case, results):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    played = training(case, results, list(map(spans, launches)))
    for criterion in case.criteria:
        if problem := _PROBLEMS[criterion](played):
            yield Failure(criterion, problem)


# ---- whether the ranks came to their end, and can be believed


def _stopped(case: Case, evidence: dict) -> str | None:
    problem, traffic = stopped(evidence), evidence["traffic"].problem
    waits = case.criteria == ("no_waiting",) and traffic is not None and traffic.kind == "deadlock"
    return f"{_WAITS} {problem}" if waits else problem


_WAITS = (
    "A rank waits inside the backward pass for a collective that another rank launches later: launch "
    "in the hooks, and wait in finish."
)


def _strange_problem(case: Case, launches: list[list[Launch]]) -> str | None:
    """Why the markers and messages of a rank are not those of its steps, in their order and no more, or None."""
    for rank, (own, launched) in enumerate(zip(case.per_rank_inputs, launches, strict=True)):
        expected = [-1, *(number for step in own["steps"] for number in (*reversed(step["route"]), -1))]
        markers = [launch for launch in launched if marker_of(launch, 1)]
        numbers = [number for launch in markers for number in marker_of(launch, 1)]
        groups = {launch.collective.entry.group for launch in markers}
        sent = [one for one in launched if one.operation == "send" and one.collective.entry.ranks[0] == rank]
        gates = [step for step in own["steps"] if step["gate"] == "send"]
        if (numbers, len(groups), len(sent)) != (expected, 1, len(gates)):
            return "A rank communicated something beside its buckets: expected all-reduces of buckets alone."
    return None


def _forged_problem(case: Case, results: list[dict]) -> str | None:
    """Why what a rank computes with after the call is neither rank 0's nor its own, or None."""
    models = [held(built(own["models"])) for own in case.per_rank_inputs]
    for own, result in zip(models, results, strict=True):
        for first, mine, now in zip(models[0], own, result["starts"], strict=True):
            if problem := tensor_problem(now, first):
                return problem
            if now.is_floating_point() and not (torch.equal(now, first) or torch.equal(now, mine)):
                return "After the call a parameter or a buffer is neither rank 0's nor what it was before."
    return None


# ---- values


def _values_problem(played: Training) -> str | None:
    first = held(played.models)
    if not all(all(map(torch.equal, result["starts"], first)) for result in played.results):
        return "After the call a rank's parameters and buffers are not rank 0's: the ranks train models of their own."
    if not all(all(map(torch.equal, result["written"], first)) for result in played.results):
        return (
            "Rank 0's values are in new tensors: copy them into the model's own, which an optimizer may hold already."
        )
    if any(launch.given for span, *_ in played.spans[1:] for launch in span.launches):
        return "Before the first step a rank other than 0 sent data: expected a broadcast from rank 0."
    return _mean_problem(played)


def _mean_problem(played: Training) -> str | None:
    for step, ranks in enumerate(played.steps):
        for result in played.results:
            for (name, parameter), grad in zip(played.models.named_parameters(), result["grads"][step], strict=True):
                own = [rank.grads.get(name, torch.zeros_like(parameter)).double() for rank in ranks]
                if problem := _gradient_problem(grad, parameter, own, played.near):
                    return problem
    return None


def _gradient_problem(grad: object, parameter: nn.Parameter, own: list[Tensor], near: float) -> str | None:
    """``own``: of all ranks, before they were reduced."""
    if not parameter.requires_grad:
        return None if grad is None else "A frozen parameter has a gradient after finish: expected none."
    if grad is None:
        return (
            "After finish a parameter has no gradient on a rank: a missing gradient counts as zeros, and "
            "that rank gets the mean too."
        )
    if problem := tensor_problem(grad, parameter):
        return problem
    size = max(float(one.abs().max()) for one in own)
    return None if _is_near(grad, sum(own) / len(own), near * size) else _why_no_mean(grad, own, 1e-3 * size)


def _why_no_mean(grad: Tensor, own: list[Tensor], near: float) -> str:
    if _is_near(grad, sum(own) / len(own), near):
        return "After finish .grad is the mean, and digits are lost: a bucket is reduced and divided in its gradients' dtype."
    if _is_near(grad, sum(own), near):
        return "After finish .grad is the sum over all ranks; expected the mean."
    if _is_near(grad, sum(own) / len(own) ** 2, near):
        return "After finish .grad is divided by the number of ranks twice."
    if any(_is_near(grad, one, near) for one in own):
        return "After finish .grad is a rank's own gradient; expected the mean over all ranks."
    return (
        "After finish .grad is not the mean of all ranks' gradients of this step, where a missing one counts as zeros."
    )


def _is_near(grad: Tensor, expected: Tensor, near: float) -> bool:
    return bool(((grad.double() - expected).abs() <= near).all())


# ---- frozen parameters and dtypes


def _mixed_problem(played: Training) -> str | None:
    for result in played.results:
        for parameter, now in zip(played.models.parameters(), result["starts"], strict=False):
            if not (parameter.requires_grad or torch.equal(now, parameter)):
                return "After the call a frozen parameter is not rank 0's: it has no gradient, but it is part of the model."
    return _mean_problem(played) or dtypes_problem(played)


_PROBLEMS = {
    "values": _values_problem,
    "buckets": buckets_problem,
    "launched": launched_problem,
    "no_waiting": launched_problem,
    "unused": _mean_problem,
    "mixed": _mixed_problem,
}


_CRITERIA = (
    Criterion("values", 2, "all ranks begin with rank 0's model, and .grad is the mean over all ranks in every step"),
    Criterion(
        "buckets", 2, "every bucket is reduced once, as one flat tensor, in order, and nothing else is communicated"
    ),
    Criterion("launched", 2, "a bucket's all-reduce starts in the backward pass, as soon as its gradients are ready"),
    Criterion("no_waiting", 1, "no hook waits: a rank launches all of its buckets whatever the others do"),
    Criterion(
        "unused", 1, "a gradient that a rank does not have counts as zeros, and no rank hangs (unused parameters)"
    ),
    Criterion("mixed", 1, "frozen parameters are not reduced, and dtypes are not mixed"),
)

exercise = Exercise(_CRITERIA, cases, _judge)
