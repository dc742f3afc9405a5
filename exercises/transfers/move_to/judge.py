"""E5.3 move_to: cases and judge."""

from collections.abc import Iterator
from typing import Any

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import count_problem, tensor_problem, type_name
from gpulab import Observation

_FORMS = ("tensor", "list", "tuple", "namedtuple", "dict", "nothing", "pairs")
_KINDS = ("list", "tuple", "namedtuple", "dict", "OrderedDict")


def _move_to_cases(sampler: Sampler) -> Iterator[Case]:
    # Alone: another call that waits would bring home what this one did not wait for.
    for device in sampler.shuffled(*_HOST):
        yield _nestings("nested", _part(sampler, "cuda", device=device))
    whole = [_part(sampler, "pageable", gradient=True), _part(sampler, "pageable", again=True)]
    devices = sampler.shuffled("cuda", "cuda:0", "object", "number", "cuda", "number", "object")
    forms = [_part(sampler, "pageable", form=form, device=device) for form, device in zip(_FORMS, devices)]
    yield _nestings("nested", *whole, *forms)
    yield _nestings(
        "as_is", *(_part(sampler, *places) for places in (["pageable"], ["cuda", "pageable"], ["pageable", "cuda"]))
    )
    there = [_part(sampler, place, device=device) for place, device in _THERE]
    yield _nestings("as_is", *there)
    for non_blocking in (True, False):
        yield _nestings("waits", _part(sampler, "pinned"), non_blocking=non_blocking)
    for held in (False, True):
        yield Case(
            ("modules", "waits"), {"module": True, "held": held, "pinned": True, "gradient": False, **_policy(sampler)}
        )
    yield Case(("modules",), {"module": True, "held": True, "pinned": False, "gradient": True, **_policy(sampler)})


_HOST = ("cpu", "host")
"""A string and a ``torch.device``."""
_THERE = (("cuda", "cuda"), ("cuda", "cuda:0"), ("cuda", "object"), *(("pageable", device) for device in _HOST))
"""Where tensors are, and the name of the same place."""


def _nestings(criteria: str, *parts: dict, non_blocking: bool = False) -> Case:
    return Case((criteria,), {"module": False, "parts": list(parts), "non_blocking": non_blocking})


def _part(
    sampler: Sampler, *places: str, form: str = "all", device: str = "cuda", again: bool = False, gradient: bool = False
) -> dict:
    """A nesting. ``places``: where its tensors are at first, in turn."""
    tensors = _tensors(sampler) if form == "all" else [sampler.tensor(sampler.integer(2, 5), sampler.integer(2, 9))]
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

    The first is square, the sixth its transpose and the last its bytes as integers.
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


def _tensor(number: int) -> list:
    return ["tensor", number]


def _other(value: Any) -> list:
    return ["other", value]


def _expected(form: str) -> list:
    """The nesting that was handed in: each tensor by its place among the case's tensors."""
    alone = {
        "tensor": _tensor(0),
        "list": ["list", [_tensor(0), ["list", []], ["dict", []]]],
        "tuple": ["tuple", [_tensor(0)]],
        "namedtuple": ["Observed", [_tensor(0), _other(None), ["tuple", []]]],
        "dict": ["dict", [["rest", ["list", []]], ["pair", ["tuple", []]], [3, _tensor(0)]]],
        "nothing": _other("reach the red cube"),
    }
    if form in alone:
        return alone[form]
    if form == "pairs":
        return [
            "list",
            [_holding([_holding([_tensor(0), _other(inner)], inner) for inner in _KINDS], outer) for outer in _KINDS],
        ]
    state = ["dict", [["joints", _tensor(1)], ["ids", ["list", [_tensor(2), _other(7)]]]]]
    sample = ["Observed", [_tensor(0), state, _other("reach the red cube")]]
    several = ["list", [_other(None), ["tuple", [_tensor(6), _other(2.5)]], _tensor(6), _other(True)]]
    within = ["Observed", [_tensor(4), _other(0), ["list", [_tensor(5)]]]]
    third = ["Observed", [within, ["tuple", [["tuple", []]]], ["dict", []]]]
    least = ["list", [_tensor(7), _tensor(8), _tensor(9)]]
    inner = [[2, ["tuple", [_tensor(3), ["list", [_tensor(6)]]]]], [1, ["set"]], [None, third], ["least", least]]
    return ["OrderedDict", [["z", sample], ["a", several], ["m", ["dict", inner]]]]


def _holding(items: list, kind: str) -> list:
    if kind == "namedtuple":
        return ["Observed", [*items[:2], ["list", items[2:]]]]
    if kind in ("dict", "OrderedDict"):
        return [kind, [[f"{len(items) - number}", item] for number, item in enumerate(items)]]
    return [kind, items]


def _judge_move_to(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.inputs["module"]:
        yield from _judge_module(case, evidence)
        return
    (criteria,) = case.criteria
    seen = Observation.from_dict(evidence["seen"])
    problem = count_problem(evidence["parts"], len(case.inputs["parts"])) or next(
        filter(None, map(_wrong_nesting, case.inputs["parts"], evidence["parts"])), None
    )
    if problem is None:
        problem = (
            _wrong_bytes(case.inputs["parts"], seen)
            if criteria != "as_is"
            else _moved_without_need(case.inputs, evidence, seen)
        )
    if problem is None and criteria == "waits":
        problem = _wrong_waits(case.inputs["non_blocking"], seen)
    if problem:
        yield Failure(criteria, problem)


def _judge_module(case: Case, evidence: dict) -> Iterator[Failure]:
    if problem := _wrong_module(case.inputs, evidence):
        yield from (Failure(criteria, problem) for criteria in case.criteria)
    elif "waits" in case.criteria and (problem := _wrong_waits(True, Observation.from_dict(evidence["seen"]))):
        yield Failure("waits", problem)


# ---- nested batches


def _wrong_nesting(part: dict, evidence: dict) -> str | None:
    pairs: list[tuple[int, int]] = []
    problem = _difference(evidence["result"], _expected(part["form"]), pairs)
    if problem:
        return problem
    for expected, number in pairs:
        if evidence["on_device"][number] == (part["device"] in _HOST):
            return "A tensor is not on the device that was asked for: a device may be a string, a number or an object."
        if not _same_tensor(evidence["tensors"][number], part["tensors"][expected]):
            return "A tensor does not have the values and the dtype that were handed in."
    if part["gradient"] and not _all_flow(part["tensors"], evidence["gradients"], dict(pairs)):
        return "A tensor that requires a gradient was detached from the graph of the one that was passed in."
    before, after = evidence["handed_in"]
    return None if before == after else "The containers that were handed in were changed: build new ones."


def _all_flow(tensors: list, gradients: list, become: dict[int, int]) -> bool:
    """Whether the first tensor and the fourth pass gradients on. ``become``: the number of what each became."""
    found = (gradients[become[0]][0], gradients[become[3]][1])
    return all(_same_tensor(one, torch.ones_like(tensors[i])) for one, i in zip(found, (0, 3)))


def _wrong_bytes(parts: list[dict], seen: Observation) -> str | None:
    if _sent_bytes(seen) < sum(_expected_bytes(part) for part in parts):
        return "Not every tensor was seen to travel to the device."
    return None


def _sent_bytes(seen: Observation) -> int:
    """Bytes that were copied from the host to the device."""
    return sum(copy.bytes for copy in seen.copies if copy.kind == "HtoD")


def _expected_bytes(part: dict) -> int:
    """Bytes of the tensors that are to be sent to the device."""
    if part["device"] in _HOST or part["form"] == "nothing":
        return 0
    return sum(tensor.nbytes for i, tensor in enumerate(part["tensors"]) if not _is_there(part, i))


def _is_there(part: dict, number: int) -> bool:
    """Whether the tensor of that number is on the device already; the sixth and the tenth lie where the first does."""
    place = part["places"][(0 if number in (5, 9) else number) % len(part["places"])]
    return (place == "cuda") == (part["device"] not in _HOST)


def _same_tensor(value: Any, expected: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == expected.dtype and torch.equal(value, expected)


def _difference(found: Any, expected: list, pairs: list[tuple[int, int]]) -> str | None:
    """Why two described nestings differ; ``pairs``: (tensor of the case, tensor that came back)."""
    if found[0] != expected[0]:
        return f"Where {_kind(expected)} was handed in, {_kind(found)} came back."
    if expected[0] == "tensor":
        pairs.append((expected[1], found[1]))
        return None
    if expected[0] == "set":
        return (
            None
            if found[1:] == [True, 3]
            else "A set is to come back as it is: the same set, with the same things in it."
        )
    if expected[0] == "other":
        same = type(found[1]) is type(expected[1]) and found[1] == expected[1]
        return None if same else "Anything that is not a tensor must come back as the same object."
    if expected[0] in ("dict", "OrderedDict"):
        return _different_items(list(zip(found[1::2], found[2::2])), expected[1], pairs, keyed=True)
    return _different_items(found[1:], expected[1], pairs, keyed=False)


def _different_items(found: list, expected: list, pairs: list, keyed: bool) -> str | None:
    if len(found) != len(expected):
        return "A container came back with another number of items."
    for mine, right in zip(found, expected):
        if keyed:
            if mine[0] != right[0]:
                return "A dictionary came back with other keys, or in another order."
            mine, right = mine[1], right[1]
        problem = _difference(mine, right, pairs)
        if problem:
            return problem
    return None


def _kind(described: list) -> str:
    names = {"tensor": "a tensor", "Observed": "a namedtuple", "OrderedDict": "an OrderedDict", "set": "a set"}
    return type_name(described[1]) if described[0] == "other" else names.get(described[0], f"a {described[0]}")


def _moved_without_need(inputs: dict, evidence: dict, seen: Observation) -> str | None:
    for part, shown in zip(inputs["parts"], evidence["parts"]):
        if not all(original for number, original in _tensors_of(shown["result"], part) if _is_there(part, number)):
            return "A tensor that was on the device already came back as another one: .to returns it itself."
        if len(shown["tensors"]) > len(part["tensors"]):
            return _SEVERAL
    if _wrong_bytes(inputs["parts"], seen):
        return _wrong_bytes(inputs["parts"], seen)
    expected = sum(map(_expected_bytes, inputs["parts"]))
    return _SEVERAL if _sent_bytes(seen) > expected or (seen.copies and not expected) else None


_SEVERAL = (
    "More bytes moved than had to: what is on the device already stays, and a tensor that occurs several times is "
    "copied once and is one object, before and after."
)


def _tensors_of(result: list, part: dict) -> Iterator[tuple[int, bool]]:
    """For each tensor of a described nesting: its number among the case's, and whether it is the one handed in."""
    pairs: list[tuple[int, int]] = []
    _difference(result, _expected(part["form"]), pairs)
    yield from ((expected, original) for (expected, _), original in zip(pairs, _are_original(result), strict=True))


def _are_original(described: Any) -> Iterator[bool]:
    if isinstance(described, list) and described and described[0] == "tensor":
        yield described[2]
    elif isinstance(described, list):
        for item in described:
            yield from _are_original(item)


def _wrong_waits(non_blocking: bool, seen: Observation) -> str | None:
    copies = [copy for copy in seen.copies if copy.kind == "HtoD"]
    if not copies or not all(copy.pinned for copy in copies):
        return "The copies did not come from the page-locked memory that was handed in."
    if non_blocking:
        return "The host waited for copies from page-locked memory: pass non_blocking on." if seen.waits else None
    arrived = max(copy.end_us for copy in copies)
    if max((wait.end_us for wait in seen.waits), default=0.0) < arrived:
        return "Without non_blocking=True the copies have arrived when the function returns: here they had not."
    return None


# ---- modules


def _wrong_module(inputs: dict, evidence: dict) -> str | None:
    if "moved" in evidence:
        return "A module that was handed in did not come back as a module."
    if not evidence["same"]:
        return "Another module came back: a module is moved in place, or its optimizer trains the old one."
    left = [name for name, on_device in evidence["where"].items() if not on_device]
    if left:
        return (
            "A buffer stayed on the host: parameters are not all that a module holds."
            if set(left) <= {"scale", "offset", "head.count"}
            else "A parameter stayed on the host."
        )
    if _sent_bytes(Observation.from_dict(evidence["seen"])) < sum(
        inputs[name].nbytes for name in ("weight", "scale", "offset")
    ):
        return "Not all parameters and buffers were seen to travel to the device."
    return _wrong_after_a_step(inputs, evidence)


def _wrong_after_a_step(inputs: dict, evidence: dict) -> str | None:
    after, weight = evidence["after"], inputs["weight"]
    gradient = inputs["scale"][:, None] * inputs["x"].sum(0) + (1 if inputs["gradient"] else 0)
    if not all(isinstance(after.get(name), torch.Tensor) for name in ("head.weight", "scale", "offset", "frozen")):
        return "The module has lost a parameter or a buffer."
    if tensor_problem(after["head.weight"], weight):
        return "The module's weight has another shape or dtype than before."
    if torch.equal(after["head.weight"], weight):
        return "The optimizer's step did not change the module's weight: it holds parameters that are no longer the module's."
    if not torch.allclose(after["head.weight"], weight - inputs["lr"] * gradient, rtol=1e-4, atol=1e-4):
        return "After one step of the optimizer the weight is wrong: gradients that were there before count too."
    if not torch.allclose(after["frozen"], inputs["offset"] - inputs["lr"] * len(inputs["x"]), rtol=1e-4, atol=1e-4):
        return "A parameter that was frozen is the optimizer's no longer: every parameter stays the object that it was."
    if not all(map(_same_tensor, (after["scale"], after["offset"]), (inputs["scale"], inputs["offset"]))):
        return "A buffer has other values than before."
    return None if evidence["tied"] else "A weight that two modules share has become two."


exercise = Exercise(
    criteria=(
        Criterion("nested", 3, "every tensor arrives, and containers keep their types, order and other items"),
        Criterion("modules", 3, "a module moves in place with its buffers, and its optimizer still trains it"),
        Criterion("as_is", 2, "no tensor is copied that is on the device already, and none twice", ("nested",)),
        Criterion("waits", 2, "the host waits for copies exactly when asked to", ("nested",)),
    ),
    cases=_move_to_cases,
    judge=_judge_move_to,
)
