"""E15.2 mini_fsdp: its judge.

Every rank asks for its own batches, which nobody else can know. What it handed in, and when, is in the broker's
record, and so is what its card held, as the units told it when they ran; its parts and their gradients are what it says.
Only `shards` asks where elements stand, only `gradients` for the mean.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.ranks import stopped
from exercises.sharding.mini_fsdp.cases import cases
from exercises.sharding.mini_fsdp.launches import gathered, gathers_problem, hands_in, scattered_problem
from exercises.sharding.mini_fsdp.log import log_of_rank
from exercises.sharding.mini_fsdp.memory import between_problem, left_problem, memory_problem
from exercises.sharding.mini_fsdp.played import Played, is_near, is_near_in_any_order


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := _stopped(evidence):
        problem = f"Of models, some of which are to be refused: {problem}" if case.inputs["refused"] else problem
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    if case.inputs["refused"]:
        if problem := _refusal_problem(case, evidence["results"]):
            yield Failure("errors", problem)
        return
    said = ([result[name] for result in evidence["results"]] for name in ("parts", "grads", "outs"))
    played = Played(case, *said, [log_of_rank(evidence["traffic"].collectives, rank) for rank in range(case.ranks)])
    also = ("gathers", "scattered") if "memory" in case.criteria else ()  # large models are no others
    for criterion in (*case.criteria, *also):
        if problem := _record_problem(played) or _PROBLEMS[criterion](played):
            yield Failure(criterion, problem)


def _stopped(evidence: dict) -> str | None:
    """What ended the ranks before their end, without a beacon that was a rank's last wish: no code of its own asked for it."""
    text = stopped(evidence)
    said, last_wish, wish = (text or "").partition(": the last that it asked for was ")
    if text and last_wish and wish.startswith("reduce SUM of 2 int64"):
        text = f"{said}."
    return f"{_FREED}{text}" if text and "SIGSEGV" in text else text


_FREED = "Something was read whose storage holds nothing, so parameters were freed too early or not gathered: "


def _record_problem(played: Played) -> str | None:
    if not all(len(said.passes) == len(played.passes) for said in played.rank_logs):
        return "The record does not hold every pass."
    for every in (parts for said in played.parts for parts in said):
        if count_problem(every, len(played.units)):
            return (
                "The list has another length than there are units with parameters: one part is due for each of these."
            )
    return None


def _shards_problem(played: Played) -> str | None:
    for rank in range(played.world):
        for i, unit in enumerate(played.units):
            due = torch.cat([unit.flat, unit.flat.new_zeros(unit.part * played.world - len(unit.flat))])
            due, real = due.chunk(played.world)[rank], max(0, min(unit.part, len(unit.flat) - rank * unit.part))
            if problem := tensor_problem(played.parts[rank][0][i], due):
                return f"A part of a unit is wrong: {problem}"
            if not torch.equal(played.parts[rank][0][i], due):
                return _OTHER_PART
            if any(parts[i][real:].any() for parts in played.parts[rank]):
                return "What stands behind a unit's last parameter is not zeros after a step."
            if any(grads[i] is not None and grads[i][real:].any() for grads in played.grads[rank]):
                return "What stands behind a unit's last parameter has a gradient that is not zeros."
    return None


_OTHER_PART = (
    "After the call a rank's parts are not its own: rank r has the r-th of equal parts of a unit's parameters, in the order of "
    "unit.parameters(), with zeros behind the last one."
)


def _gradients_problem(played: Played) -> str | None:
    for number, due in enumerate(played.due):
        for rank in range(played.world):
            if tensor_problem(played.outs[rank][number], due.outs[rank].float()) or not is_near(
                played.outs[rank][number].flatten(), due.outs[rank].flatten()
            ):
                return "What the model returns is not what its units give with what the parts hold at the time."
        for i, expected in enumerate(due.grads):
            grads = [played.grads[rank][number][i] for rank in range(played.world)]
            if any(grad is None for grad in grads):
                return "After the backward pass a part has no gradient."
            size = max(float(own[i].abs().max()) for own in due.own)
            if not is_near_in_any_order(torch.cat(grads), expected, max(size, float(expected.abs().max()))):
                return "The parts' gradients are not the mean over all ranks of the unit's, added to what was there."
    return None


def _evaluation_problem(played: Played) -> str | None:
    """Two like steps; after each pass that goes forward alone another. Gradients that pile up from step to step are not this one's."""
    for number, one in enumerate(played.passes):
        steps = sum(earlier["do"] == "train" for earlier in played.passes[: number + 1])
        for rank, logged in enumerate(played.logged(number)):
            if one["do"] == "train":
                first, again, grads = (played.grads[rank][i] for i in (0, 1, number))
                if not _alike(grads, first) and not (_alike(again, first, 2) and _alike(grads, first, steps)):
                    return "After a pass that went forward alone a step has other gradients than the same step before it, or none."
                continue
            out, due = played.outs[rank][number], played.due[number].outs[rank]
            if tensor_problem(out, due.float()) or not is_near(out.flatten(), due.flatten()):
                return "What the model returns in a pass that goes forward alone is not what its units give."
            if any(launch.reduces for launch in logged.launches):
                return "A pass that goes forward alone reduces something: it has no gradients."
            if any(gathered(played, logged)[i] > 1 for i in range(len(played.units))):
                return "A pass that goes forward alone gathers a unit more than once."
            if any(not torch.equal(given, part) for given, part in hands_in(played, rank, logged)):
                return "What a rank hands in to an all-gather of a pass that goes forward alone is not its part of the unit."
    return left_problem(played)


def _alike(grads: list, others: list, times: int = 1) -> bool:
    pairs = list(zip(grads, others, strict=True))
    return all(g is not None and o is not None and is_near(g, times * o.double()) for g, o in pairs)


def _refusal_problem(case: Case, results: list[list[dict]]) -> str | None:
    for rank, answers in enumerate(results):
        models = case.per_rank_inputs[rank]["models"]
        if problem := count_problem(answers, len(models)):
            return problem
        for answer, given in zip(answers, models, strict=True):
            because = _REFUSED.get(given["fault"]["kind"], "a parameter has another dtype than float32")
            if because and (problem := error_problem(answer, "ValueError", because)):
                return problem
            if not because and "error" in answer:
                return f"A model that can be sharded is refused. {raised_problem(answer['error'])}"
            if not because and not isinstance(answer["returned"], list):
                return "The function returned something else than a list."
    return None


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
    "between": between_problem,
    "evaluation": _evaluation_problem,
}


exercise = Exercise(
    criteria=(
        Criterion("shards", 1, "every rank has its part of each unit, and zeros behind the last parameter"),
        Criterion("gradients", 2, "the parts' gradients are those of the mean over all ranks, and are added up"),
        Criterion("gathers", 1, "a unit is gathered once forward and once backward, and nothing else crosses"),
        Criterion("scattered", 1, "a unit's gradients cross in one reduce-scatter"),
        Criterion("memory", 1, "at most two units are whole at once"),
        Criterion("between", 1, "nothing of full size is left between two passes"),
        Criterion(
            "evaluation", 1, "passes that go forward alone gather once, leave nothing behind and disturb nothing"
        ),
        Criterion("errors", 1, "models that it cannot shard are refused with ValueError"),
    ),
    cases=cases,
    judge=_judge,
)
