"""E15.2 mini_fsdp: its judge.

Every rank asks for its own batches, which nobody else can know. What it handed in, and when, is in the broker's
record, and so is what its card held, as the units told it when they ran; its parts and their gradients are what it says.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.judge.collective_broker import Traffic
from autograder.judge.expect import count_problem, error_problem, raised_problem, tensor_problem
from autograder.judge.ranks import launches_of, marker_of, stopped
from exercises.sharding.mini_fsdp import launches as fsdp_launches
from exercises.sharding.mini_fsdp import memory as fsdp_memory
from exercises.sharding.mini_fsdp import units as fsdp_units
from exercises.sharding.mini_fsdp.cases import cases
from exercises.sharding.mini_fsdp.log import log_of_rank
from exercises.sharding.mini_fsdp.played import Played

Tensor = torch.Tensor
_IN_ALL_STEPS = ("gradients", "gathers", "scattered")
"""What is asked beside what the card holds, where a case comes to its end: large models are no others."""
_NEAR = 2e-5
"""How much of a number's size two computations of it may differ by."""


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.inputs["refused"]:
        if problem := _refusal_problem(case, evidence):
            yield Failure("errors", problem)
        return
    if problem := _stopped(evidence) or _forged(case, evidence["results"]):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    played = _played(case, evidence["results"], evidence["traffic"])
    also = _IN_ALL_STEPS if "memory" in case.criteria else ()
    for criterion in (*case.criteria, *also):
        if problem := _missing(played) or _PROBLEMS[criterion](played):
            yield Failure(criterion, problem)


def _missing(played: Played) -> str | None:
    whole = all(len(said.passes) == len(played.passes) for said in played.rank_logs)
    return None if whole else "The record does not hold every pass."


def _stopped(evidence: dict) -> str | None:
    """What ended the ranks before their end, without a beacon that was a rank's last wish: no code of its own asked for it."""
    text = stopped(evidence)
    said, last_wish, wish = (text or "").partition(": the last that it asked for was ")
    if text and last_wish and wish.startswith(_BEACON):
        text = f"{said}."
    return f"{_FREED}{text}" if text and "SIGSEGV" in text else text


_BEACON = "reduce SUM of 2 int64"
_FREED = "Something was read whose storage holds nothing, so parameters were freed too early or not gathered: "


def _played(case: Case, results: list[dict], traffic: Traffic) -> Played:
    said = ([result[name] for result in results] for name in ("parts", "grads", "outs", "inputs"))
    return Played(case, *said, [log_of_rank(traffic.collectives, rank) for rank in range(case.ranks)], _units(case))


def _units(case: Case) -> list[fsdp_units.Sharded]:
    first = case.per_rank_inputs[0]
    return fsdp_units.sharded(first["models"], case.ranks, first["passes"][0]["input_requires_grad"])


def _forged(case: Case, results: list[dict]) -> str | None:
    """Why what ranks hold after the call, or later, are not the parts of their units, or None."""
    for rank, result in enumerate(results):
        for number, parts in enumerate(result["parts"]):
            if count_problem(parts, len(_units(case))):
                return _COUNT
            for part, unit in zip(parts, _units(case), strict=True):
                whole = fsdp_units.flat(fsdp_units.parameters(unit.unit), unit.part * case.ranks)
                expected, real = whole.chunk(case.ranks)[rank], _real(unit, rank)
                if problem := tensor_problem(part, expected):
                    return f"A part of a unit is wrong: {problem}"
                if number == 0 and not torch.equal(part[:real], expected[:real]):
                    return _OTHER_PART
    return None


_COUNT = "The list has another length than there are units with parameters: one part is due for each of these."
_OTHER_PART = (
    "After the call a rank's parts are not its own: rank r has the r-th of equal parts of a unit's parameters, in the order of "
    "unit.parameters(), with zeros behind the last one."
)


def _real(unit: fsdp_units.Sharded, rank: int) -> int:
    """How many elements of the part of ``rank`` are parameters."""
    return max(0, min(unit.part, sum(p.numel() for p in fsdp_units.parameters(unit.unit)) - rank * unit.part))


# ---- parts and gradients


def _shards_problem(played: Played) -> str | None:
    for rank in range(played.world):
        for i, unit in enumerate(played.units):
            real = _real(unit, rank)
            if any(parts[i][real:].any() for parts in played.parts[rank]):
                return "What stands behind a unit's last parameter is not zeros, in the parts or after a step."
            if any(grads[i] is not None and grads[i][real:].any() for grads in played.grads[rank]):
                return "What stands behind a unit's last parameter has a gradient that is not zeros."
    return None


def _gradients_problem(played: Played) -> str | None:
    for number in range(len(played.passes)):
        expected = played.expected_grads(number)
        for rank in range(played.world):
            for i, whole in enumerate(expected):
                if problem := _grad_problem(played, number, rank, i, whole):
                    return problem
            if problem := _input_problem(played, number, rank):
                return problem
    return None


def _input_problem(played: Played, number: int, rank: int) -> str | None:
    if not played.passes[number]["input_requires_grad"]:
        return None
    grad, expected = played.inputs[rank][number], played.of_input(rank, number)
    if tensor_problem(grad, expected.float()) or not _is_near(grad, expected, _size(expected)):
        return "The model's input has another gradient than its own rank's loss gives it."
    return None


def _grad_problem(played: Played, number: int, rank: int, i: int, whole: Tensor | None) -> str | None:
    grad = played.grads[rank][number][i]
    if whole is None:
        return "A part has a gradient where no backward pass was." if grad is not None and grad.any() else None
    if grad is None:
        return "After the backward pass a part has no gradient."
    if problem := tensor_problem(grad, played.parts[rank][0][i]):
        return f"The gradient of a part is wrong: {problem}"
    real = _real(played.units[i], rank)
    if not _is_near(grad[:real], played.of_rank(whole, rank)[:real], played.size(number, whole)):
        return _why_no_mean(played, number, rank, i, grad)
    before, after = (played.parts[rank][at][i] for at in (number, number + 1))
    steps = played.passes[number]["then"] != "keep"
    expected = (before.double() - steps * played.case.inputs["lr"] * played.of_rank(whole, rank))[:real]
    return (
        None
        if _is_near(after[:real], expected, _size(expected))
        else "A part changes in another way than by the optimizer's steps."
    )


def _why_no_mean(played: Played, number: int, rank: int, i: int, grad: Tensor) -> str:
    of = [played.own(r, number)[i] for r in range(played.world)]
    for expected, why in (
        (sum(of), "is the sum over all ranks; expected the mean."),
        (sum(of) / len(of) ** 2, "is divided by the number of ranks twice."),
        (of[rank], "is of the rank's own batch alone: the mean over all ranks is due."),
        (sum(of) / len(of), "is the last backward pass's alone: it is to be added to what is there."),
    ):
        real = _real(played.units[i], rank)
        if _is_near(grad[:real], played.of_rank(expected, rank)[:real], _size(expected)):
            return f"The gradient of a part {why}"
    return "The gradient of a part is not this rank's part of the mean over all ranks, added to what was there."


def _is_near(one: Tensor, other: Tensor, size: float) -> bool:
    return bool(((one.double() - other).abs() <= _NEAR * size).all())


def _size(values: Tensor) -> float:
    return float(values.abs().max()) if len(values) else 0.0


# ---- passes without a backward pass


def _evaluation_problem(played: Played) -> str | None:
    for number, one in enumerate(played.passes):
        for rank in range(played.world):
            if problem := _out_problem(played, number, rank) or _grads_after_problem(played, number, rank):
                return problem
            if one["do"] != "train" and any(
                launch.reduces for launch in played.rank_logs[rank].passes[number].launches
            ):
                return "A pass that goes forward alone reduces something: it has no gradients."
    return fsdp_launches.gathers_problem(played) or fsdp_memory.forward_alone_problem(played)


def _out_problem(played: Played, number: int, rank: int) -> str | None:
    out, expected = played.outs[rank][number], played.expected_out(rank, number)
    if tensor_problem(out, expected.float()) or not _is_near(out, expected, _size(expected)):
        return "What the model returns is not what its units give with all ranks' parts."
    return None


def _grads_after_problem(played: Played, number: int, rank: int) -> str | None:
    """A sum for a mean is another criterion's."""
    for i, whole in enumerate(played.expected_grads(number)):
        grad = played.grads[rank][number][i]
        if whole is None:
            if grad is not None and grad.any():
                return "A part has a gradient after a pass that went forward alone."
            continue
        if tensor_problem(grad, played.parts[rank][0][i]):
            return "A part has no gradient, or another one than is due, in a step after a pass that went forward alone."
        real, expected = _real(played.units[i], rank), played.of_rank(whole, rank)
        size = played.size(number, whole)
        if not any(
            _is_near(factor * grad[:real], expected[:real], size) for factor in (1, played.world, 1 / played.world)
        ):
            return "A part has another gradient than is due in a step after a pass that went forward alone."
    return None


# ---- what is refused


def _refusal_problem(case: Case, evidence: dict) -> str | None:
    if problem := _stopped(evidence):
        return f"{_NOT_REFUSED}{problem}"
    for rank, answers in enumerate(evidence["results"]):
        if problem := count_problem(answers, len(case.per_rank_inputs[rank]["models"])):
            return problem
        for answer, given in zip(answers, case.per_rank_inputs[rank]["models"], strict=True):
            if given["fault"]["kind"] == "none":
                if "error" in answer:
                    return f"A model that can be sharded is refused. {raised_problem(answer['error'])}"
                continue
            if problem := error_problem(answer, "ValueError"):
                return f"{problem} {_REFUSED[given['fault']['kind']]}"
            if not _computes_as_before(answer["after"], given):
                return "A model that is refused no longer computes what it did: look before anything is changed."
    return _crossing_problem(case, evidence["traffic"])


def _crossing_problem(case: Case, traffic: Traffic) -> str | None:
    """Why something crosses that is not a sound model's, or None. Before each model a rank tells a boundary."""
    for rank in range(case.ranks):
        faults = iter(given["fault"]["kind"] for given in case.per_rank_inputs[rank]["models"])
        fault = "before all"
        for launch in launches_of(traffic.collectives, rank):
            if marker_of(launch, 2) is not None:
                fault = next(faults, "after all")
            elif fault != "none":
                return "Something crosses before a model is refused, or when it runs after that."
    return None


_NOT_REFUSED = "A model that is to be refused with ValueError was sharded, or changed before it was refused. "
_OTHER_DTYPE = "A parameter of another dtype than float32 would lie among float32's."
_REFUSED = dict.fromkeys(("float64", "float16", "bfloat16"), _OTHER_DTYPE) | {
    "twice": "A unit that stands in the model twice would be sharded twice.",
    "tied": "A parameter that belongs to two units would become two, which part with the first step.",
    "frozen": "A parameter that does not require a gradient would be trained with its unit.",
}


def _computes_as_before(after: dict, given: dict) -> bool:
    units, fault = [dict(unit) for unit in given["units"]], given["fault"]
    spoilt = units[fault["unit"]] = units[fault["unit"]] | {"tensors": dict(units[fault["unit"]]["tensors"])}
    if fault["kind"] == "twice":
        units[fault["unit"]] = units[fault["unit"] - 1]
    elif fault["kind"] == "tied":
        spoilt["tensors"]["g"] = units[fault["unit"] - 1]["tensors"]["g"]
    elif fault["kind"] != "frozen":
        spoilt["tensors"]["g"] = spoilt["tensors"]["g"].to(getattr(torch, fault["kind"])).float()
    values = [
        torch.cat([p.reshape(-1) for p in fsdp_units.parameters(unit)]) for unit in units if fsdp_units.parameters(unit)
    ]
    expected, out = fsdp_units.output([units], values, given["x"]), after.get("returned")
    return not tensor_problem(out, expected.float()) and _is_near(out, expected, _size(expected))


_PROBLEMS = {
    "shards": _shards_problem,
    "gradients": _gradients_problem,
    "gathers": fsdp_launches.gathers_problem,
    "scattered": fsdp_launches.scattered_problem,
    "memory": fsdp_memory.memory_problem,
    "between": fsdp_memory.between_problem,
    "evaluation": _evaluation_problem,
}


exercise = Exercise(
    criteria=(
        Criterion("shards", 1, "every rank has its part of each unit, and zeros behind the last parameter"),
        Criterion("gradients", 2, "the parts' gradients are those of the mean over all ranks, and are added up"),
        Criterion(
            "gathers", 1, "a unit is gathered in its turn, once forward and once backward, and nothing else crosses"
        ),
        Criterion("scattered", 1, "a unit's gradients cross in one reduce-scatter, as soon as its backward is through"),
        Criterion("memory", 1, "at most two units are whole at once"),
        Criterion("between", 1, "nothing of full size is left between two passes"),
        Criterion(
            "evaluation", 1, "passes that go forward alone gather once, leave nothing behind and disturb nothing"
        ),
        Criterion(
            "errors", 1, "models that it cannot shard are refused with ValueError, and stay as they are", ("shards",)
        ),
    ),
    cases=cases,
    judge=_judge,
)
