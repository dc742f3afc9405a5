"""E5.3 move_to: cases and judge."""

from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem
from exercises.transfers.move_to.modules import same_tensor, sent_bytes, wrong_module
from exercises.transfers.move_to.nestings import FORMS, PLAIN, difference, expected_nesting
from gpulab import Observation


def _move_to_cases(sampler: Sampler) -> Iterator[Case]:
    # Alone: another call that waits would bring home what this one did not wait for.
    for device in sampler.shuffled(*_HOST):
        yield _nestings(("nested", "waits"), _part(sampler, "cuda", form="plain", device=device))
    whole = [
        _part(sampler, "pageable", gradient=True),
        _part(sampler, "pageable", again=True),
        _part(sampler, *_MIXED[1]),
    ]
    devices = sampler.shuffled("cuda", "cuda:0", "object", "number", "cuda", "number", "object")
    forms = [_part(sampler, "pageable", form=form, device=device) for form, device in zip(FORMS, devices)]
    yield _nestings(("nested",), *whole, *forms)
    for form, there in (("plain", _THERE_BY_STRING), ("all", _THERE)):
        yield _nestings(("as_is",), *(_part(sampler, *places, form=form) for places in _MIXED))
        yield _nestings(("as_is",), *(_part(sampler, place, form=form, device=device) for place, device in there))
        for non_blocking in (True, False):
            yield _nestings(("waits",), _part(sampler, "pinned", form=form), non_blocking=non_blocking)
    for held, non_blocking in ((False, True), (True, True), (False, False)):
        yield _module(("modules", "waits"), sampler, held=held, pinned=True, non_blocking=non_blocking)
    yield _module(("modules",), sampler, held=True, gradient=True)
    yield _module(("modules",), sampler, head_first=True)


_HOST = ("cpu", "host")
"""A string and a ``torch.device``."""
_MIXED = (["pageable"], ["cuda", "pageable"], ["pageable", "cuda"])
_THERE_BY_STRING = (("cuda", "cuda"), ("cuda", "cuda:0"), ("pageable", "cpu"))
_THERE = (*_THERE_BY_STRING, ("cuda", "object"), ("pageable", "host"))
"""Where tensors are, and the name of the same place."""


def _nestings(criteria: tuple[str, ...], *parts: dict, non_blocking: bool = False) -> Case:
    return Case(criteria, {"module": False, "parts": list(parts), "non_blocking": non_blocking})


def _module(criteria: tuple[str, ...], sampler: Sampler, **how: bool) -> Case:
    """``head_first``: one of its parts is on the device already."""
    ways = dict.fromkeys(("held", "pinned", "non_blocking", "gradient", "head_first"), False) | how
    return Case(criteria, {"module": True, **ways, **_policy(sampler)})


def _part(
    sampler: Sampler, *places: str, form: str = "all", device: str = "cuda", again: bool = False, gradient: bool = False
) -> dict:
    """A nesting. ``places``: where its tensors are at first, in turn."""
    several = {"all": _tensors, "plain": lambda sampler: _tensors(sampler)[:PLAIN]}
    tensors = several.get(form, lambda sampler: [sampler.tensor(sampler.integer(2, 5), sampler.integer(2, 9))])(sampler)
    return {
        "tensors": tensors,
        "form": form,
        "places": list(places),
        "device": device,
        "again": again,
        "gradient": gradient,
    }


def _tensors(sampler: Sampler) -> list[torch.Tensor]:
    """Of many dtypes; the fourth lies transposed, the eighth has no element, the ninth no dimension.

    The first is square, the sixth its transpose, the tenth its bytes as integers and the last the same once more.
    """
    dtypes = (torch.float32, torch.int64, torch.bfloat16, torch.float64, torch.bool, torch.float32, torch.int32)
    tensors = [sampler.tensor(sampler.integer(2, 5), sampler.integer(2, 9), dtype=dtype) for dtype in dtypes]
    side = sampler.integer(2, 5)
    tensors[0], tensors[3] = sampler.tensor(side, side), tensors[3].t()
    tensors[5] = tensors[0].t().clone()
    return [
        *tensors,
        torch.empty(0, sampler.integer(1, 9)),
        sampler.tensor(dtype=torch.int64),
        tensors[0].view(torch.int32).clone(),
        tensors[0].clone(),
    ]


def _policy(sampler: Sampler) -> dict:
    """What a module holds and gets: ``scale`` and ``x`` are greater than 0, so that no gradient of a weight is 0."""
    outputs, inputs = sampler.integer(2, 4), sampler.integer(5, 7)
    return {
        "weight": sampler.tensor(outputs, inputs),
        "scale": sampler.tensor(outputs) + 2,
        "offset": sampler.tensor(outputs),
        "x": sampler.tensor(sampler.integer(2, 4), inputs) + 2,
        "lr": sampler.choice((0.5, 0.25)),
    }


def _judge_move_to(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.inputs["module"]:
        yield from _judge_module(case, evidence)
        return
    parts = case.inputs["parts"]
    problem = count_problem(evidence["parts"], len(parts)) or next(
        filter(None, map(_wrong_nesting, parts, evidence["parts"])), None
    )
    if problem:
        if "nested" in case.criteria or parts[0]["form"] == "plain":
            yield Failure(case.criteria[-1 if problem == _NOT_ARRIVED else 0], problem)
    elif problem := _PROBLEM[case.criteria[0]](case.inputs, evidence, Observation.from_dict(evidence["seen"])):
        yield Failure(case.criteria[0], problem)


def _judge_module(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := wrong_module(case.inputs, evidence):
        yield Failure("modules", problem)
    elif "waits" in case.criteria:
        if problem := _wrong_waits(case.inputs, evidence, Observation.from_dict(evidence["seen"])):
            yield Failure("waits", problem)


def _wrong_nesting(part: dict, evidence: dict) -> str | None:
    pairs: list[tuple[int, int]] = []
    problem = difference(evidence["result"], expected_nesting(part["form"]), pairs)
    if problem:
        return problem
    for expected, number in pairs:
        if evidence["on_device"][number] == (part["device"] in _HOST):
            return _STAYED if part["device"] in ("cuda", "cpu") else _ELSEWHERE
        if not same_tensor(evidence["tensors"][number], part["tensors"][expected]):
            return _why_other_values(part, evidence["tensors"][number])
    if part["gradient"] and not _all_flow(part["tensors"], evidence["gradients"], dict(pairs)):
        return "A tensor that requires a gradient was detached from the graph of the one that was passed in."
    before, after = evidence["handed_in"]
    return None if before == after else "The containers that were handed in were changed: build new ones."


def _why_other_values(part: dict, found: Any) -> str:
    if part["device"] in _HOST and part["places"] == ["cuda"]:
        return _NOT_ARRIVED
    if part["again"] and isinstance(found, torch.Tensor) and not found.any():
        return "A tensor has the values of the call before: the next call moves what the tensors hold then."
    if any(same_tensor(found, other) for other in part["tensors"]):
        return "A tensor came back as another's copy: tensors at one address may differ in shape, strides or dtype."
    return "A tensor does not have the values and the dtype that were handed in."


_STAYED = (
    "A tensor is not on the device that was asked for: each goes there, whatever it is in, its shape and its place."
)
_ELSEWHERE = "A tensor is not on the device that was asked for: a device may be a string, a number or an object."
_NOT_ARRIVED = "A tensor came to the host with other values: without non_blocking=True its copy has arrived when the function returns."


def _all_flow(tensors: list, gradients: list, become: dict[int, int]) -> bool:
    """Whether the first tensor and the fourth pass gradients on. ``become``: the number of what each became."""
    found = (gradients[become[0]][0], gradients[become[3]][1])
    return all(same_tensor(one, torch.ones_like(tensors[i])) for one, i in zip(found, (0, 3)))


def _wrong_bytes(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    if sent_bytes(seen) < sum(map(_expected_bytes, inputs["parts"])):
        return "Not every tensor was seen to travel to the device."
    return None


def _expected_bytes(part: dict) -> int:
    """Bytes of the tensors that are to be sent to the device."""
    if part["device"] in _HOST or part["form"] == "nothing":
        return 0
    return sum(tensor.nbytes for i, tensor in enumerate(part["tensors"]) if not _is_there(part, i))


def _is_there(part: dict, number: int) -> bool:
    """Whether the tensor of that number is on the device already; the sixth and the tenth of all lie where the first does."""
    beside = part["form"] == "all" and number in (5, 9)
    place = part["places"][(0 if beside else number) % len(part["places"])]
    return (place == "cuda") == (part["device"] not in _HOST)


def _moved_without_need(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    for part, shown in zip(inputs["parts"], evidence["parts"]):
        if not all(original for number, original in _tensors_of(shown["result"], part) if _is_there(part, number)):
            return "A tensor that was on the device already came back as another one: .to returns it itself."
        if len(shown["tensors"]) > len(part["tensors"]):
            return _SEVERAL
    if problem := _wrong_bytes(inputs, evidence, seen):
        return problem
    if any(op.op == "aten.clone" and op.device != "cpu" for op in seen.ops):
        return "What is on the device is copied once more there."
    expected = sum(map(_expected_bytes, inputs["parts"]))
    return _SEVERAL if sent_bytes(seen) > expected or (seen.copies and not expected) else None


_SEVERAL = (
    "More bytes moved than had to: what is on the device already stays, and a tensor that occurs several times is "
    "copied once and is one object, before and after."
)


def _tensors_of(result: list, part: dict) -> Iterator[tuple[int, bool]]:
    """For each tensor of a described nesting: its number among the case's, and whether it is the one handed in."""
    pairs: list[tuple[int, int]] = []
    difference(result, expected_nesting(part["form"]), pairs)
    yield from ((expected, original) for (expected, _), original in zip(pairs, _are_original(result), strict=True))


def _are_original(described: Any) -> Iterator[bool]:
    if isinstance(described, list) and described and described[0] == "tensor":
        yield described[2]
    elif isinstance(described, list):
        for item in described:
            yield from _are_original(item)


def _wrong_waits(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    copies = [copy for copy in seen.copies if copy.kind == "HtoD"]
    if not copies or not all(copy.pinned for copy in copies):
        return "The copies did not come from the page-locked memory that was handed in."
    if inputs["non_blocking"]:
        return "The host waited for copies from page-locked memory: pass non_blocking on." if seen.waits else None
    arrived = max(copy.end_us for copy in copies)
    if max((wait.end_us for wait in seen.waits), default=0.0) < arrived:
        return "Without non_blocking=True the copies have arrived when the function returns: here they had not."
    return None


_PROBLEM = {"nested": _wrong_bytes, "as_is": _moved_without_need, "waits": _wrong_waits}


exercise = Exercise(
    criteria=(
        Criterion("nested", 3, "every tensor arrives, and containers keep their types, order and other items"),
        Criterion("modules", 3, "a module moves in place with its buffers, and its optimizer still trains it"),
        Criterion("as_is", 2, "no tensor is copied that is on the device already, and none twice"),
        Criterion("waits", 2, "the host waits for copies exactly when asked to"),
    ),
    cases=_move_to_cases,
    judge=_judge_move_to,
)
