"""E14.1 mini_ddp: its judge.

Every rank asks for its own models and batches, which nobody else can know. What it handed in, and when, is on the
broker's record; its models after the call and its gradients after ``finish`` are what it says.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import tensor_problem
from autograder.judge.ranks import Launch, is_of_all, stopped
from exercises.data_parallel.mini_ddp import launches, replica
from exercises.data_parallel.mini_ddp.cases import cases
from exercises.data_parallel.mini_ddp.launches import RankLog, is_all_reduce, log_of_rank, same_in_any_order
from exercises.data_parallel.mini_ddp.played import Elements, Played
from exercises.data_parallel.mini_ddp.replica import Parameter

Tensor = torch.Tensor


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    traffic: Traffic = evidence["traffic"]
    ranks = [log_of_rank(traffic.collectives, rank) for rank in range(case.ranks)]
    if problem := _stopped(case, evidence) or _marker_problem(case, ranks) or _forged(case, evidence["results"]):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    played = _played(case, evidence["results"], ranks)
    for criterion in case.criteria:
        if problem := _PROBLEMS[criterion](played):
            yield Failure(criterion, problem)


def _played(case: Case, results: list[dict], ranks: list[RankLog]) -> Played:
    starts, written, grads = ([result[name] for result in results] for name in ("starts", "written", "grads"))
    own = [
        [replica.gradients(mine["models"], start, step) for step in mine["steps"]]
        for mine, start in zip(case.per_rank_inputs, starts, strict=True)
    ]
    dtypes = {p.like.dtype for model in case.per_rank_inputs[0]["models"] for p in replica.parameters(model)}
    near = 1e-9 if dtypes == {torch.float64} else 2e-5
    return Played(case, starts, written, grads, ranks, own, near)


def _stopped(case: Case, evidence: dict) -> str | None:
    problem, traffic = stopped(evidence), evidence["traffic"].problem
    waits = case.criteria == ("no_waiting",) and traffic is not None and traffic.kind == "deadlock"
    return f"{_WAITS}{problem}" if waits else problem


_WAITS = (
    "A rank waits inside the backward pass for a collective that another rank launches later: launch "
    "in the hooks, and wait in finish. "
)


def _marker_problem(case: Case, ranks: list[RankLog]) -> str | None:
    """Why the numbers that say where a rank is are not those of its steps, in their order and no more, or None."""
    for mine, said in zip(case.per_rank_inputs, ranks, strict=True):
        tops = [replica.top(step) for step in mine["steps"]]
        expected = [-1, *(number for top in tops for number in (*range(top, -1, -1), -1))]
        sends = sum(operation == "isend" for step in mine["steps"] for _, operation, _ in step["gates"])
        if (said.numbers, len(said.groups), said.sends) != (expected, 1, sends):
            return "A rank communicated something beside its buckets: expected all-reduces of buckets alone."
    return None


def _forged(case: Case, results: list[dict]) -> str | None:
    """Why what a rank computes with after the call is neither rank 0's nor its own, or None."""
    for rank, result in enumerate(results):
        models = zip(
            case.per_rank_inputs[0]["models"], case.per_rank_inputs[rank]["models"], result["starts"], strict=True
        )
        for model, own, start in models:
            for one, other, now in zip(replica.held(model), replica.held(own), start, strict=True):
                if problem := tensor_problem(now, one):
                    return problem
                if one.is_floating_point() and not (torch.equal(now, one) or torch.equal(now, other)):
                    return "After the call a parameter or a buffer is neither rank 0's nor what it was before."
    return None


# ---- values


def _values_problem(played: Played) -> str | None:
    if not all(_are_rank_0s(played, start) for start in played.starts):
        return "After the call a rank's parameters and buffers are not rank 0's: the ranks train models of their own."
    if not all(_are_rank_0s(played, start) for start in played.written):
        return (
            "Rank 0's values are in new tensors: copy them into the model's own, which an optimizer may hold already."
        )
    if any(launch.given for rank in played.rank_logs[1:] for launch in rank.before):
        return "Before the first step a rank other than 0 sent data: expected a broadcast from rank 0."
    return _mean_problem(played)


def _are_rank_0s(played: Played, start: list) -> bool:
    return all(all(map(torch.equal, now, replica.held(model))) for model, now in zip(played.models, start, strict=True))


def _mean_problem(played: Played) -> str | None:
    every = [(m, parameter) for m, model in enumerate(played.models) for parameter in replica.parameters(model)]
    for step in played.steps:
        for grads in played.grads:
            for (model, parameter), grad in zip(every, grads[step], strict=True):
                if problem := _grad_problem(played, step, model, parameter, grad):
                    return problem
    return None


def _grad_problem(played: Played, step: int, model: int, parameter: Parameter, grad: object) -> str | None:
    if parameter.frozen:
        return None if grad is None else "A frozen parameter has a gradient after finish: expected none."
    if grad is None:
        return (
            "After finish a parameter has no gradient on a rank: a missing gradient counts as zeros, and "
            "that rank gets the mean too."
        )
    if problem := tensor_problem(grad, parameter.like):
        return problem
    of = [played.flat(rank, step, model, [parameter]) for rank in range(played.case.ranks)]
    size, now = max(float(one.abs().max()) for one in of), grad.reshape(-1).double()
    return None if _is_near(now, sum(of) / len(of), played.near * size) else _why_no_mean(now, of, 1e-3 * size)


def _why_no_mean(grad: Tensor, of: list[Tensor], near: float) -> str:
    if _is_near(grad, sum(of), near):
        return "After finish .grad is the sum over all ranks; expected the mean."
    if _is_near(grad, sum(of) / len(of) ** 2, near):
        return "After finish .grad is divided by the number of ranks twice."
    if any(_is_near(grad, one, near) for one in of):
        return "After finish .grad is a rank's own gradient; expected the mean over all ranks."
    return (
        "After finish .grad is not the mean of all ranks' gradients of this step, where a missing one counts as zeros."
    )


def _is_near(one: Tensor, other: Tensor, near: float) -> bool:
    return bool(((one - other).abs() <= near).all())


# ---- buckets


def _buckets_problem(played: Played) -> str | None:
    for step in played.steps:
        if problem := _step_problem(played, step, played.rank_logs[0].launches[step]):
            return problem
    return None


def _step_problem(played: Played, step: int, traffic: list[Launch]) -> str | None:
    """Why what rank 0 launched in a step, in order, is not every model's buckets."""
    left = played.buckets()
    if any(
        len(launch.collective.entry.ranks) < played.case.ranks
        for rank in played.rank_logs
        for launch in rank.launches[step]
    ):
        return "In a step a collective ran in which not all ranks took part."
    if any(not is_all_reduce(launch) for launch in traffic):
        return "In a step a rank communicated something other than an all-reduce of gradients in their dtype."
    if len(traffic) != sum(map(len, left)):
        which = "more" if len(traffic) > sum(map(len, left)) else "fewer"
        return f"There are {which} all-reduces in a step than buckets: each bucket is reduced once, as one flat tensor."
    for launch in traffic:
        model = next((m for m, queue in enumerate(left) if queue and _is(played, step, m, queue[0], launch)), None)
        if model is None:
            return _why_no_bucket([queue[0] for queue in left if queue], launch)
        if not _arranged_alike(played, step, launch):
            return (
                "The ranks put gradients at different places of a flat tensor: the all-reduce adds those of "
                "different parameters."
            )
        left[model].pop(0)
    return None


def _is(played: Played, step: int, model: int, bucket: list[Parameter], launch: Launch) -> bool:
    """Whether every rank handed in its own gradients of ``bucket``, divided by the number of ranks or not."""
    entry = launch.collective.entry
    if not is_of_all(launch.collective, played.case.ranks) or launches.DTYPES[entry.dtype] != bucket[0].like.dtype:
        return False
    given = launches.of_all_ranks(launch)
    expected = [played.flat(rank, step, model, bucket) for rank in entry.ranks]
    return any(
        all(same_in_any_order(factor * one, other, played.near) for one, other in zip(given, expected, strict=True))
        for factor in (1, len(entry.ranks))
    )


def _arranged_alike(played: Played, step: int, launch: Launch) -> bool:
    """Whether every rank has the same element of its gradients at each place, where all ranks use all parameters."""
    given = launches.of_all_ranks(launch)
    found = [played.elements(rank, step).numbers_in(one, played.case.ranks) for rank, one in enumerate(given)]
    return all(torch.equal(one, found[0]) for one in found)


def _why_no_bucket(next_ones: list[list[Parameter]], launch: Launch) -> str:
    sizes = {(bucket[0].like.dtype, sum(p.like.numel() for p in bucket)) for bucket in next_ones}
    dtype, size = launches.DTYPES[launch.collective.entry.dtype], len(launches.values(launch))
    if dtype not in {expected for expected, _ in sizes}:
        return "A bucket is reduced in a dtype other than its gradients', or mixes two dtypes."
    if (dtype, size) not in sizes:
        return (
            "A bucket has the wrong size, or is reduced out of order. From the last parameter to the first, "
            "each joins the current bucket while that stays within bucket_bytes; every rank reduces buckets "
            "in this order."
        )
    return (
        "A rank's flat tensor does not hold its own gradients of the bucket's parameters: was it "
        "launched before the last of them was ready, or is it left over from another step?"
    )


# ---- launched


def _launched_problem(played: Played) -> str | None:
    for rank, said in enumerate(played.rank_logs):
        for step in played.steps:
            if problem := _launch_problem(played, rank, step, said):
                return problem
    return None


def _launch_problem(played: Played, rank: int, step: int, said: RankLog) -> str | None:
    """Why a rank launched something later than it could, whatever its buckets are, or None.

    What it handed in says of itself which parameters' gradients it holds.
    """
    places, own = said.places[step], played.elements(rank, step)
    since = [replica.top(played.case.per_rank_inputs[rank]["steps"][step])] * len(played.models)
    handed: list[tuple[int, set[int]]] = []
    for launch in filter(is_all_reduce, said.launches[step]):
        numbers = own.numbers_in(launches.values(launch), played.case.ranks)
        handed.append((launch.at, set(numbers.tolist())))
        for model, place in own.ready(numbers):
            since[model] = min(since[model], place)
            if launch.at > places.get(since[model], 0):
                return _LATE
    if len(set().union(*(numbers for _, numbers in handed))) < len(own.values):
        return "Not every gradient is reduced: an all-reduce holds something other than this step's gradients."
    return _first_problem(played, own, handed, places)


def _first_problem(played: Played, own: Elements, handed: list, places: dict[int, int]) -> str | None:
    """A model's first bucket, where it is exactly full, must be launched early by whoever begins at the last parameter."""
    rooms = played.case.inputs["bucket_bytes"]
    for model, first in enumerate(queue[0] for queue in played.buckets() if queue):
        expected = own.of_bucket(model, first)
        by = places.get(min(place for _, place in own.ready(expected)), 0)
        by_then = set().union(*(numbers for at, numbers in handed if at < by))
        if sum(p.like.nbytes for p in first) == rooms[model] and not set(expected.tolist()) <= by_then:
            return _LATE
    return None


_LATE = (
    "A bucket's all-reduce starts later than it could: all of its gradients are ready, and other "
    "layers still go through their backward pass."
)


# ---- frozen parameters and dtypes


def _mixed_problem(played: Played) -> str | None:
    for start in played.starts:
        for model, own in zip(played.models, start, strict=True):
            if any(p.frozen and not torch.equal(own[p.number], p.like) for p in replica.parameters(model)):
                return (
                    "After the call a frozen parameter is not rank 0's: it has no gradient, but it is part of the "
                    "model."
                )
    return _mean_problem(played) or _dtypes_problem(played)


def _dtypes_problem(played: Played) -> str | None:
    trained = [p.like for model in played.models for p in replica.parameters(model) if not p.frozen]
    for step in played.steps:
        for name, dtype in launches.DTYPES.items():
            of_it = [launch for launch in played.rank_logs[0].launches[step] if launch.collective.entry.dtype == name]
            if sum(len(launch.given) for launch in of_it) != sum(
                like.nbytes for like in trained if like.dtype == dtype
            ):
                return (
                    "The elements reduced in a dtype are not those of its trainable parameters: frozen parameters "
                    "have no gradients to reduce."
                )
    return None


_PROBLEMS = {
    "values": _values_problem,
    "buckets": _buckets_problem,
    "launched": _launched_problem,
    "no_waiting": _launched_problem,
    "unused": _mean_problem,
    "mixed": _mixed_problem,
}


exercise = Exercise(
    criteria=(
        Criterion(
            "values", 2, "all ranks begin with rank 0's model, and .grad is the mean over all ranks in every step"
        ),
        Criterion(
            "buckets", 2, "every bucket is reduced once, as one flat tensor, in order, and nothing else is communicated"
        ),
        Criterion(
            "launched", 2, "a bucket's all-reduce starts in the backward pass, as soon as its gradients are ready"
        ),
        Criterion("no_waiting", 1, "no hook waits: a rank launches all of its buckets whatever the others do"),
        Criterion(
            "unused", 1, "a gradient that a rank does not have counts as zeros, and no rank hangs (unused parameters)"
        ),
        Criterion("mixed", 1, "frozen parameters are not reduced, and dtypes are not mixed"),
    ),
    cases=cases,
    judge=_judge,
)
