"""E1.3 compact: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import device_problem, shares_input_storage, tensor_problem, type_name
from exercises.views.pictures import DTYPES, telling
from gpulab import Observation, shares_storage, storage_bytes


def _compact_cases(sampler: Sampler) -> Iterator[Case]:
    yield _case("compact", [*_cuts(sampler), *_cuts_at_one_address(sampler), sampler.tensor(sampler.integer(3, 9), 5)])
    yield _case("compact", _cuts(sampler), refilled=True)
    yield _case("untouched", sampler.permutation(_compact_already(sampler)))
    yield _case("untouched", sampler.permutation(_among_cuts(sampler)))
    yield _case("untouched", [sampler.tensor(3)] * sampler.integer(1050, 1100))  # more than calls may be nested
    yield _case("kinds", sampler.permutation([*_every_dtype(sampler), *_odd_ones(sampler)]))
    yield _case("kinds", [])
    yield _case("grad", sampler.permutation([*_asking_for_grad(sampler), sampler.tensor(7, 3)[2:5], sampler.tensor(4)]))
    yield _case("released", [*_asking_for_grad(sampler), sampler.tensor(7, 3)[2:5], sampler.tensor(4)], let_go=True)


def _case(criteria: str, batch: list[torch.Tensor], let_go: bool = False, refilled: bool = False) -> Case:
    """Every second tensor that requires grad hangs on a graph; the others are leaves.

    refilled: the batch has been compacted before, when its storages held other values.
    """
    once = list({id(tensor): tensor for tensor in batch}.values())
    places = [next(i for i, tensor in enumerate(once) if tensor is shown) for shown in batch]
    asking = [i for i, tensor in enumerate(once) if tensor.requires_grad]
    on_a_graph = [i in asking[::2] for i in range(len(once))]
    inputs = {"once": once, "places": places, "on_a_graph": on_a_graph, "let_go": let_go, "refilled": refilled}
    return Case((criteria,), inputs)


def _batch(case: Case) -> list[torch.Tensor]:
    """What was handed in: a tensor that stands there twice is one object."""
    return [case.inputs["once"][place] for place in case.inputs["places"]]


def _cuts(sampler: Sampler) -> list[torch.Tensor]:
    """Views that show a part of their storage; the first two share one."""
    rows, columns = sampler.integer(9, 20), sampler.integer(5, 8)
    base, other = (sampler.tensor(rows, columns) for _ in range(2))
    cuts = [
        other[:, sampler.integer(1, 3)],
        other.t()[1:4, 2:5],
        other[-1:],
        other[::2],
        other[:, :-1],
        sampler.tensor(6)[:5],
        sampler.tensor(6)[1:],
    ]
    return [base[sampler.integer(1, 3)], base[: sampler.integer(2, 4)], *sampler.permutation(cuts)]


def _cuts_at_one_address(sampler: Sampler) -> list[torch.Tensor]:
    """What differs in shape alone, in strides alone, and one tensor twice."""
    base = sampler.tensor(8, 6)
    corner = base[:3, :3]
    return sampler.permutation([base[:2], base[:3], corner, corner.t(), corner])


def _compact_already(sampler: Sampler) -> list[torch.Tensor]:
    a, b = sampler.integer(3, 5), sampler.integer(6, 8)
    images = sampler.tensor(2, 3, a, b)
    twice, wide = sampler.tensor(a, b), sampler.tensor(3 * b)
    asking = [sampler.tensor(a, b).t().requires_grad_() for _ in range(2)]
    return [
        sampler.tensor(a, b).t(),
        images.contiguous(memory_format=torch.channels_last),
        sampler.tensor(a, b, 2).permute(2, 0, 1),
        sampler.tensor(1, b).expand(a, b),
        wide[:b].expand(3, b),
        wide[1 : b + 1].expand(4, b),
        sampler.tensor(a + b).unfold(0, a, 1),
        sampler.tensor(a * b).view(b, a),
        sampler.tensor(a, b).view(torch.uint8),
        twice,
        twice,
        *(telling(sampler, a, b, dtype=dtype) for dtype in DTYPES),
        torch.empty(0, b),
        sampler.tensor(1)[0],
        *asking,
    ]


def _among_cuts(sampler: Sampler) -> list[torch.Tensor]:
    """Compact ones beside cuts, of their own storages too."""
    base, other = sampler.tensor(6, 5), sampler.tensor(4, 7)
    return [base, base[2], base.t(), other[:, 1:3], sampler.tensor(3, 4).t(), sampler.tensor(1, 4).expand(9, 4)]


def _every_dtype(sampler: Sampler) -> Iterator[torch.Tensor]:
    """Of each dtype one row, and all but one element."""
    for dtype in DTYPES:
        yield telling(sampler, 9, 7, dtype=dtype)[sampler.integer(1, 6)]
        whole = telling(sampler, sampler.integer(9, 12), dtype=dtype)
        yield sampler.choice((whole[1:], whole[:-1]))


def _odd_ones(sampler: Sampler) -> list[torch.Tensor]:
    """Scalars, no elements, expanded cuts that show less than is stored, bytes that are no whole element, one address in two dtypes."""
    base, row = sampler.tensor(11, 5), sampler.tensor(12)
    part = sampler.tensor(22, dtype=torch.uint8)[:20].view(torch.float32)
    nothing = [base[4:4], base[:, 2:2], base[3:3, 0], base[:0]]
    return [
        base[3, 2],
        row[0],
        *nothing,
        base[:1].expand(3, 5),
        row[:4].expand(2, 4),
        part,
        row[2:4],
        row[2:4].view(torch.int32),
    ]


def _asking_for_grad(sampler: Sampler) -> list[torch.Tensor]:
    dtypes = (
        torch.float32,
        torch.float32,
        torch.float64,
        torch.float64,
        torch.bfloat16,
        torch.bfloat16,
        torch.complex64,
    )
    wholes = [telling(sampler, sampler.integer(6, 9), 5, dtype=dtype) for dtype in dtypes]
    return [(whole[1] if i % 3 else whole[:, 2:4]).detach().requires_grad_() for i, whole in enumerate(wholes)]


def _judge_compact(case: Case, evidence: dict) -> Iterator[Failure]:
    (criteria,) = case.criteria
    batch, results = _batch(case), evidence["results"]
    problem = _list_problem(results, len(batch)) or _first_problem(batch, results)
    if problem is None and criteria != "released":
        problem = _batch_problem(case, evidence)
    if problem is None and criteria in _ALSO:
        problem = _ALSO[criteria](case, evidence)
    if problem:
        yield Failure(criteria, problem)


def _list_problem(results: object, count: int) -> str | None:
    if not isinstance(results, list):
        return f"The function returned {type_name(results)}; expected a list or a tuple of tensors."
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
    return _too_large(before) if storage_bytes(after) > before.nbytes else None


def _too_large(before: torch.Tensor) -> str:
    if 0 in before.stride():
        return "An expanded tensor that shows fewer bytes than are stored is not compact: its storage is too large."
    if not before.is_contiguous():
        return "A result's storage holds more than its elements: a view keeps all of the storage that it is cut from."
    return (
        "A result still has the large storage behind it: a slice keeps all of it, whether `_base` names one or not, and "
        "for a slice that is contiguous already, contiguous() returns the slice itself."
    )


def _batch_problem(case: Case, evidence: dict) -> str | None:
    """Why the caller's list and its tensors are not what they were."""
    batch = _batch(case)
    if not all(evidence["list_kept"]) or len(evidence["list_kept"]) != len(batch):
        return "The function changed the list that it was handed."
    for before, after in zip(batch, evidence["batch"], strict=True):
        if tensor_problem(after, before) or not torch.equal(after, before):
            return "The function changed a tensor of its batch."
        if after.stride() != before.stride() or storage_bytes(after) != storage_bytes(before):
            return "The function changed the storage of a tensor of its batch."
    asking = [tensor.requires_grad for tensor in batch] == [tensor.requires_grad for tensor in evidence["batch"]]
    if not asking or evidence["hanging"] != [case.inputs["on_a_graph"][place] for place in case.inputs["places"]]:
        return "The function changed requires_grad, or the graph, of a tensor of its batch."
    return None


def _kept_problem(case: Case, evidence: dict) -> str | None:
    """Why tensors that were compact already did not come back as they were."""
    batch = _batch(case)
    compact_already = [_is_compact(tensor) for tensor in batch]
    rows = zip(range(len(batch)), evidence["given"], evidence["results"], evidence["same"], strict=True)
    for number, before, after, same in (row for row in rows if compact_already[row[0]]):
        if not shares_storage(before, after) or not shares_input_storage(evidence, number):
            return _copied(before)
        if not same:
            return "A tensor that was compact already came back as another tensor over its storage: give back itself."
    if problem := device_problem(Observation.from_dict(evidence["seen"])):
        return problem
    if all(compact_already) and (evidence["seen"]["copies"] or evidence["seen"]["new_bytes"]):
        return "Bytes were copied although every tensor was compact already."
    return None


def _is_compact(tensor: torch.Tensor) -> bool:
    return storage_bytes(tensor) <= tensor.nbytes


def _copied(tensor: torch.Tensor) -> str:
    if 0 in tensor.stride() and tensor.numel():
        return "An expanded tensor was written out: it shows more elements than it stores."
    if not tensor.is_contiguous():
        return "A tensor that is not contiguous but fills its storage was copied: it was compact already."
    return "A tensor that fills its storage was copied: it was compact already."


def _grad_problem(case: Case, evidence: dict) -> str | None:
    asked, given = ([tensor.requires_grad for tensor in tensors] for tensors in (_batch(case), evidence["results"]))
    return None if asked == given else "A result does not have the requires_grad of its tensor."


def _held_problem(case: Case, evidence: dict) -> str | None:
    for before, leaf, freed in zip(_batch(case), evidence["leaves"], evidence["freed"], strict=True):
        if not _is_compact(before) and not freed:
            return _HELD
        if not _is_compact(before) and not leaf:
            return "A copy is no leaf: it hangs on a graph of its own making."
    return None


_HELD = (
    "The batch is gone and its large storage is not freed: something leads back to it, as the graph of a "
    "copy leads to what it was cut from."
)


_ALSO = {"untouched": _kept_problem, "grad": _grad_problem, "released": _held_problem}

exercise = Exercise(
    criteria=(
        Criterion("compact", 3, "each result has the right values in a storage of no more bytes than its elements"),
        Criterion("untouched", 2, "a tensor that is already compact is returned itself, without a copy", ("compact",)),
        Criterion("kinds", 1, "every dtype, scalars, empty tensors and an empty batch work", ("compact",)),
        Criterion("grad", 1, "requires_grad is unchanged", ("compact",)),
        Criterion("released", 1, "the large storages are freed once the batch is deleted", ("compact",)),
    ),
    cases=_compact_cases,
    judge=_judge_compact,
)
