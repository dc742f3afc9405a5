"""E5.3 move_to: cases and judge."""

from collections.abc import Iterator
from typing import Any

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import type_name
from gpulab import Observation


def _move_to_cases(draw: Draw) -> Iterator[Case]:
    for empty in (False, True):
        yield _nesting_case(draw, ("nested",), "pageable", empty=empty)
    yield _nesting_case(draw, ("as_is",), "pageable")
    yield _nesting_case(draw, ("as_is",), "cuda")
    for non_blocking in (True, False):
        yield _nesting_case(draw, ("waits",), "pinned", non_blocking=non_blocking)
    for held in (False, True):
        yield Case(("modules",), {"module": True, "held": held, **_policy(draw)})


def _nesting_case(draw: Draw, about: tuple, place: str, empty: bool = False, non_blocking: bool = False) -> Case:
    dtypes = (torch.float32, torch.int64, torch.bfloat16, torch.float64, torch.int32)
    shapes = [(draw.integer(2, 5), draw.integer(2, 9)) for _ in range(5)]
    tensors = [draw.tensor(*shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes)]
    inputs = {"tensors": tensors[-1:] if empty else tensors, "place": place, "empty": empty}
    return Case(about, {"module": False, "non_blocking": non_blocking, **inputs})


def _policy(draw: Draw) -> dict:
    outputs, inputs = draw.integer(2, 4), draw.integer(5, 7)
    return {
        "weight": draw.tensor(outputs, inputs),
        "scale": draw.tensor(outputs),
        "offset": draw.tensor(outputs),
        "x": draw.tensor(draw.integer(2, 4), inputs),
        "lr": draw.choice((0.5, 0.25)),
    }


def _tensor(number: int) -> list:
    return ["tensor", number]


def _other(value: Any) -> list:
    return ["other", value]


def _due(empty: bool) -> list:
    """The nesting that was handed in: each tensor by its place among the case's tensors."""
    if empty:
        return ["dict", [["rest", ["list", []]], ["pair", ["tuple", []]], ["alone", _tensor(0)]]]
    state = ["dict", [["joints", _tensor(1)], ["ids", ["list", [_tensor(2), _other(7)]]]]]
    sample = ["Observed", [_tensor(0), state, _other("reach the red cube")]]
    several = ["list", [_other(None), ["tuple", [_tensor(4), _other(2.5)]], _tensor(4)]]
    inner = ["dict", [["inner", ["tuple", [_tensor(3), ["list", [_tensor(4)]]]]]]]
    return ["OrderedDict", [["z", sample], ["a", several], ["m", inner]]]


def _judge_move_to(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    judge = _wrong_module if case.inputs["module"] else _wrong_nesting
    problem = judge(case.inputs, evidence)
    if problem is None and about == "as_is":
        problem = _moved_without_need(case.inputs, evidence)
    if problem is None and about == "waits":
        problem = _wrong_waits(case.inputs["non_blocking"], Observation.from_dict(evidence["seen"]))
    if problem:
        yield Lost(about, problem)


# ---- nested batches


def _wrong_nesting(inputs: dict, evidence: dict) -> str | None:
    pairs: list[tuple[int, int]] = []
    problem = _difference(evidence["result"], _due(inputs["empty"]), pairs)
    if problem:
        return problem
    for due, number in pairs:
        if not evidence["on_device"][number]:
            return "A tensor stayed on the host."
        if not _same_tensor(evidence["tensors"][number], inputs["tensors"][due]):
            return "A tensor does not have the values and the dtype that were handed in."
    if inputs["place"] != "cuda" and _sent_bytes(evidence) < _total_bytes(inputs):
        return "Not every tensor was seen to travel to the device."
    before, after = evidence["handed_in"]
    return None if before == after else "The containers that were handed in were changed: build new ones."


def _sent_bytes(evidence: dict) -> int:
    """Bytes that were copied from the host to the device."""
    return sum(copy.bytes for copy in Observation.from_dict(evidence["seen"]).copies if copy.kind == "HtoD")


def _total_bytes(inputs: dict) -> int:
    return sum(tensor.nbytes for tensor in inputs["tensors"])


def _same_tensor(value: Any, due: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == due.dtype and torch.equal(value, due)


def _difference(found: Any, due: list, pairs: list[tuple[int, int]]) -> str | None:
    """Why two described nestings differ; ``pairs``: (tensor of the case, tensor that came back)."""
    if found[0] != due[0]:
        return f"Where {_kind(due)} was handed in, {_kind(found)} came back."
    if due[0] == "tensor":
        pairs.append((due[1], found[1]))
        return None
    if due[0] == "other":
        same = type(found[1]) is type(due[1]) and found[1] == due[1]
        return None if same else "What is no tensor is to come back as it is."
    return _different_items(found[1], due[1], pairs)


def _different_items(found: list, due: list, pairs: list) -> str | None:
    if len(found) != len(due):
        return "A container came back with another number of items."
    for mine, right in zip(found, due):
        if isinstance(right[0], str) and isinstance(right[1], list) and len(right) == 2 and _is_entry(right):
            if mine[0] != right[0]:
                return "A dictionary came back with other keys, or in another order."
            mine, right = mine[1], right[1]
        problem = _difference(mine, right, pairs)
        if problem:
            return problem
    return None


_KINDS = {"OrderedDict", "dict", "Observed", "list", "tuple", "tensor", "other"}


def _is_entry(item: list) -> bool:
    return item[0] not in _KINDS


def _kind(described: list) -> str:
    names = {"tensor": "a tensor", "Observed": "a namedtuple", "OrderedDict": "an OrderedDict"}
    return type_name(described[1]) if described[0] == "other" else names.get(described[0], f"a {described[0]}")


def _moved_without_need(inputs: dict, evidence: dict) -> str | None:
    seen = Observation.from_dict(evidence["seen"])
    if inputs["place"] == "cuda":
        if seen.copies or not all(_is_original(evidence["result"])):
            return "A tensor that was on the device already came back as another one: .to returns it itself."
        return None
    if _sent_bytes(evidence) > _total_bytes(inputs) or len(evidence["tensors"]) > len(inputs["tensors"]):
        return "A tensor that occurs several times was copied several times: it is one object, before and after."
    return None


def _is_original(described: Any) -> Iterator[bool]:
    if isinstance(described, list) and described and described[0] == "tensor":
        yield described[2]
    elif isinstance(described, list):
        for item in described:
            yield from _is_original(item)


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
        return "A buffer stayed on the host: parameters are not all that a module holds." if set(left) <= {
            "scale", "offset"
        } else "A parameter stayed on the host."  # fmt: skip
    if _sent_bytes(evidence) < sum(inputs[name].nbytes for name in ("weight", "scale", "offset")):
        return "Not all parameters and buffers were seen to travel to the device."
    return _wrong_after_a_step(inputs, evidence)


def _wrong_after_a_step(inputs: dict, evidence: dict) -> str | None:
    after, weight = evidence["after"], inputs["weight"]
    gradient = inputs["scale"][:, None] * inputs["x"].sum(0)
    if not all(isinstance(after.get(name), torch.Tensor) for name in ("head.weight", "scale", "offset")):
        return "The module has lost a parameter or a buffer."
    if torch.equal(after["head.weight"], weight):
        return "The optimizer's step did not change the module's weight: it holds parameters that are no longer the module's."
    if not torch.allclose(after["head.weight"], weight - inputs["lr"] * gradient, rtol=1e-4, atol=1e-4):
        return "After one step of the optimizer the weight is wrong."
    if not (torch.equal(after["scale"], inputs["scale"]) and torch.equal(after["offset"], inputs["offset"])):
        return "A buffer has other values than before."
    return None if evidence["tied"] else "A weight that two modules share has become two."


move_to = Exercise(
    "transfers.move_to",
    criteria=(
        Criterion("nested", 3, "every tensor arrives, and containers keep their types, order and other items"),
        Criterion("modules", 3, "a module moves in place with its buffers, and its optimizer still trains it"),
        Criterion("as_is", 2, "nothing is copied that is there already, and nothing twice", ("nested",)),
        Criterion("waits", 2, "the host waits for copies exactly when it was asked to", ("nested",)),
    ),
    cases=_move_to_cases,
    judge=_judge_move_to,
)
