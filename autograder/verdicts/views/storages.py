"""E1.3 compact: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem, type_name
from gpulab import shares_storage, storage_bytes


def _compact_cases(draw: Draw) -> Iterator[Case]:
    yield _case("compact", _cuts(draw, torch.float32) + [draw.tensor(draw.integer(3, 9), 5)])
    yield _case("untouched", _compact_already(draw))
    yield _case("kinds", _every_kind(draw))
    yield _case("kinds", [])
    yield _case("grad", [*_asking_for_grad(draw), draw.tensor(7, 3)[2:5]], on_a_graph=draw.chance(0.5))
    yield Case(("released",), {"batch": _asking_for_grad(draw), "on_a_graph": True, "let_go": True})


def _case(about: str, batch: list[torch.Tensor], on_a_graph: bool = False) -> Case:
    return Case((about,), {"batch": batch, "on_a_graph": on_a_graph, "let_go": False})


def _cuts(draw: Draw, dtype: torch.dtype) -> list[torch.Tensor]:
    """Views that show a part of their storage; the first two share one."""
    rows, columns = draw.integer(9, 20), draw.integer(5, 8)
    base, other = (draw.tensor(rows, columns, dtype=dtype) for _ in range(2))
    cuts = [base[draw.integer(1, 3)], base[: draw.integer(2, 4)], other[:, draw.integer(1, 3)], other.t()[1:4, 2:5], other[-1:]]
    return cuts[:2] + draw.shuffled(cuts[2:])


def _compact_already(draw: Draw) -> list[torch.Tensor]:
    a, b = draw.integer(3, 5), draw.integer(6, 8)
    images = draw.tensor(2, 3, a, b)
    twice = draw.tensor(a, b)
    tensors = [
        draw.tensor(a, b).t(),
        images.contiguous(memory_format=torch.channels_last),
        draw.tensor(a, b, 2).permute(2, 0, 1),
        draw.tensor(1, b).expand(a, b),
        draw.tensor(a * b).view(b, a),
        twice,
        twice,
        draw.tensor(a, dtype=torch.int64),
    ]
    return draw.shuffled(tensors)


def _every_kind(draw: Draw) -> list[torch.Tensor]:
    dtypes = (torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.uint8, torch.complex64)
    cuts = [draw.tensor(9, 7, dtype=dtype)[draw.integer(1, 6)] for dtype in dtypes]
    base = draw.tensor(11, 5)
    flags = draw.tensor(6, 4, dtype=torch.int64) % 2 == 0
    odd = [flags[1:3], base[3, 2], base[4:4], base[:, 2:2], base[:1].expand(3, 5)]
    return draw.shuffled(cuts + odd)


def _asking_for_grad(draw: Draw) -> list[torch.Tensor]:
    cuts = _cuts(draw, torch.float32)
    return [cut.detach().requires_grad_() for cut in cuts]


def _judge_compact(case: Case, evidence: dict) -> Iterator[Lost]:
    (about,) = case.about
    batch, results = case.inputs["batch"], evidence["results"]
    problem = _list_problem(results, len(batch)) or _first_problem(batch, results)
    if problem is None and about != "released":
        problem = _batch_problem(batch, evidence["batch"])
    if problem is None and about in _ALSO:
        problem = _ALSO[about](batch, evidence)
    if problem:
        yield Lost(about, problem)


def _list_problem(results: object, count: int) -> str | None:
    if not isinstance(results, list):
        return f"The function returned {type_name(results)}; a list of tensors is due."
    return None if len(results) == count else "The result does not have one tensor for each of the batch."


def _first_problem(batch: list[torch.Tensor], results: list) -> str | None:
    problems = (_tensor_problem(before, after) for before, after in zip(batch, results, strict=True))
    return next((problem for problem in problems if problem), None)


def _tensor_problem(before: torch.Tensor, after: object) -> str | None:
    if problem := tensor_problem(after, before):
        return problem
    if not torch.equal(after, before):
        return "A result does not hold the values of its tensor."
    if storage_bytes(after) > before.nbytes and not before.numel():
        return "A tensor of no elements still has a storage behind it."
    if storage_bytes(after) > before.nbytes:
        return _TOO_LARGE if before.is_contiguous() else "A result's storage holds more than its elements."
    return None


_TOO_LARGE = (
    "A result still has the large storage behind it: a slice keeps all of its base alive, and for "
    "a slice that is contiguous already, contiguous() returns the slice itself."
)


def _batch_problem(batch: list[torch.Tensor], after_call: list[torch.Tensor]) -> str | None:
    for before, after in zip(batch, after_call, strict=True):
        if tensor_problem(after, before) or not torch.equal(after, before):
            return "The function changed a tensor of its batch."
        if after.stride() != before.stride() or storage_bytes(after) != storage_bytes(before):
            return "The function changed the storage of a tensor of its batch."
    return None


def _kept_problem(batch: list[torch.Tensor], evidence: dict) -> str | None:
    """Why tensors that were compact already did not come back as they were."""
    compact_already = [storage_bytes(tensor) <= tensor.nbytes for tensor in batch]
    rows = zip(compact_already, evidence["given"], evidence["results"], strict=True)
    for before, after in ((before, after) for already, before, after in rows if already):
        if not shares_storage(before, after) or before.stride() != after.stride():
            return _copied(before)
    if batch and all(compact_already) and (evidence["seen"]["copies"] or evidence["seen"]["new_bytes"]):
        return "Bytes were copied although every tensor was compact already."
    return None


def _copied(tensor: torch.Tensor) -> str:
    if 0 in tensor.stride() and tensor.numel():
        return "An expanded tensor was written out: it shows more elements than it stores."
    if not tensor.is_contiguous():
        return "A tensor that is not contiguous but fills its storage was copied: it was compact already."
    return "A tensor that fills its storage was copied: it was compact already."


def _grad_problem(batch: list[torch.Tensor], evidence: dict) -> str | None:
    asked, given = ([tensor.requires_grad for tensor in tensors] for tensors in (batch, evidence["results"]))
    return None if asked == given else "A result does not have the requires_grad of its tensor."


def _held_problem(batch: list[torch.Tensor], evidence: dict) -> str | None:
    if evidence["freed"] is True:
        return None
    return (
        "The batch is gone and its large storage is not freed: the copies still hang on the graph of "
        "what they were cut from."
    )


_ALSO = {"untouched": _kept_problem, "grad": _grad_problem, "released": _held_problem}

compact = Exercise(
    "views.compact",
    criteria=(
        Criterion("compact", 3, "each result has the right values in a storage of no more bytes than its elements"),
        Criterion("untouched", 2, "a tensor that is compact already comes back as it is, uncopied", ("compact",)),
        Criterion("kinds", 1, "every dtype, scalars, tensors of no elements and an empty batch are served", ("compact",)),
        Criterion("grad", 1, "requires_grad is as it was", ("compact",)),
        Criterion("released", 1, "once the batch is gone, the large storages are freed", ("compact",)),
    ),
    cases=_compact_cases,
    judge=_judge_compact,
)
