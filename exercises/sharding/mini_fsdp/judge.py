"""E15.2 mini_fsdp: its judge.

Every rank asks for its own batches, which nobody else can know. What it handed in, and when, is in the broker's
record, and so is what its card held, as the units told it when they ran; its parts and their gradients are what it says.
Only `shards` asks which parts these are and where elements stand, only `gradients` for the mean.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.expect import count_problem, refusals_problem, tensor_problem
from autograder.judge.ranks import launches_of, spans, stopped
from exercises.sharding.mini_fsdp.cases import cases
from exercises.sharding.mini_fsdp.crossing import are_parts, gathers_problem, often, reductions, scattered_problem
from exercises.sharding.mini_fsdp.memory import left_problem, memory_problem
from exercises.sharding.mini_fsdp.training import Training, is_near, is_near_in_any_order


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := stopped(evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
    elif case.inputs["refused"]:
        kinds = [given["fault"]["kind"] for given in case.per_rank_inputs[0]["models"]]
        reasons = [_REFUSED.get(kind, "a parameter has another dtype than float32") for kind in kinds]
        if problem := refusals_problem(evidence["results"][0], reasons, "ValueError", "A model that can be sharded is"):
            yield Failure("errors", problem)
    else:
        said = ([result[name] for result in evidence["results"]] for name in ("parts", "grads", "outs"))
        launches = [launches_of(evidence["traffic"].collectives, rank) for rank in range(case.ranks)]
        played = Training(case, *said, [spans(of_rank, measured=1)[:-1] for of_rank in launches])
        for criterion in case.criteria:
            if problem := _record_problem(played) or _PROBLEMS[criterion](played):
                yield Failure(criterion, problem)


def _record_problem(played: Training) -> str | None:
    ran = set(range(0, 2 * len(played.case.per_rank_inputs[0]["units"]), 2))
    elements = sum(map(len, played.units)) / played.case.ranks
    for parts, of_rank in zip(played.parts, played.spans, strict=True):
        if len(of_rank) != 1 + len(played.passes) or any(ran - one.marks.keys() for one in of_rank[1:]):
            return "The record does not hold every unit's run in every pass."
        if sum(part.numel() for part in parts[0]) < elements:
            return "The list's parts hold fewer elements than the model has: every parameter is in a part of some rank."
        if min(told.measured[0] for one in of_rank for told in one.told) < 4 * elements:
            return "The card holds less than the rank's parts, which lie there all the time."
    return None


def _shards_problem(played: Training) -> str | None:
    for rank, (first, *_) in enumerate(played.parts):
        if count_problem(first, len(played.units)):
            return "The list has not as many parts as there are units with parameters: one is due for each."
        for i, unit in enumerate(played.units):
            padded = torch.cat([unit, unit.new_zeros(-len(unit) % played.case.ranks)])
            due = padded.chunk(played.case.ranks)[rank]
            real = max(0, min(len(due), len(unit) - rank * len(due)))
            if problem := tensor_problem(first[i], due):
                return f"A part of a unit is wrong: {problem}"
            if not torch.equal(first[i], due):
                return "A rank's parts are not its own: rank r has the r-th of equal parts of a unit's parameters, in the order of unit.parameters(), with zeros behind the last one."
            if any(parts[i][real:].any() for parts in played.parts[rank]):
                return "What stands behind a unit's last parameter is not zeros after a step."
            if any(grads[i] is not None and grads[i][real:].any() for grads in played.grads[rank]):
                return "What stands behind a unit's last parameter has a gradient that is not zeros."
    return None


def _gradients_problem(played: Training) -> str | None:
    for number, due in enumerate(played.due):
        if not _are_outputs(played, number):
            return "What the model returns is not what its units give with what the parts hold at the time."
        grads = [grad for said in played.grads for grad in said[number]]
        if any(grad is None for grad in grads):
            return "After the backward pass a part has no gradient."
        if not is_near_in_any_order(torch.cat([grad.flatten() for grad in grads]), due.grads):
            return "The parts' gradients are not the mean over all ranks of the unit's, added to what was there."
    return None


def _are_outputs(played: Training, number: int) -> bool:
    """Whether what came out in a pass is what is due in each rank."""
    pairs = zip((outs[number] for outs in played.outs), played.due[number].outs, strict=True)
    return all(not tensor_problem(out, due.float()) and is_near(out, due) for out, due in pairs)


def _evaluation_problem(played: Training) -> str | None:
    """Two like steps; after each pass that goes forward alone another. Where the two differ, gradients are not this one's."""
    for number, one in enumerate(played.passes):
        if one["do"] == "train":
            if not all(_alike(grads[number], grads[0]) or not _alike(grads[1], grads[0]) for grads in played.grads):
                return "After a pass that went forward alone a step has other gradients than the same step before it, or none."
            continue
        if not _are_outputs(played, number):
            return "What the model returns in a pass that goes forward alone is not what its units give."
        for parts, spans_of_rank in zip(played.parts, played.spans, strict=True):
            now = spans_of_rank[number + 1]
            if not now.launches or max(often(parts[0], now)) > 1:
                return "A pass that goes forward alone does not gather each unit once."
            if reductions(parts, now) or not are_parts(parts, now):
                return "In a pass that goes forward alone something else crosses than the ranks' parts: it has no gradients."
    return left_problem(played)


def _alike(grads: list, others: list) -> bool:
    return all(g is not None and o is not None and is_near(g, o.double()) for g, o in zip(grads, others, strict=True))


_REFUSED = {
    "none": None,
    "twice": None,
    "tied": "a parameter belongs to two units",
    "frozen": "a parameter does not require gradients",
}
_PROBLEMS = {
    "shards": _shards_problem,
    "gradients": _gradients_problem,
    "gathers": gathers_problem,
    "scattered": scattered_problem,
    "memory": memory_problem,
    "evaluation": _evaluation_problem,
}


exercise = Exercise(
    criteria=(
        Criterion("shards", 1, "every rank has its part of each unit, and zeros behind the last parameter"),
        Criterion("gradients", 2, "the parts' gradients are those of the mean over all ranks, and are added up"),
        Criterion("gathers", 1, "a unit is gathered once forward and once backward, and nothing else crosses"),
        Criterion("scattered", 1, "a unit's gradients cross in one reduce-scatter"),
        Criterion("memory", 2, "at most two units are whole at once, and nothing of full size is left between passes"),
        Criterion("evaluation", 1, "a pass forward alone gathers once, leaves nothing behind and disturbs nothing"),
        Criterion("errors", 1, "models that it cannot shard are refused with ValueError"),
    ),
    cases=cases,
    judge=_judge,
)
