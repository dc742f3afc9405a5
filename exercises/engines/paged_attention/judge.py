"""E19.6 paged_attention: cases and judge."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import tensor_problem
from autograder.judge.own_work import UNWRITTEN, ZEROS
from exercises.engines.paged_attention.cache import Paged, attended, needed_bytes, paged
from exercises.kernels.own_kernel import (
    fault_problem,
    judge_own,
    launches_problem,
    own_memory_problem,
    values_problem,
    written_once_problem,
)
from gpulab import Observation
from gpulab.units import plural

_HALF, _BRAIN, _SINGLE = torch.float16, torch.bfloat16, torch.float32
_TOLERANCE = {_HALF: 4e-3, _BRAIN: 3e-2, _SINGLE: 2e-5}
"""Where digits are not the point, those of sums in half the digits pass."""
_ROUNDED = {_HALF: 6e-4, _BRAIN: 5e-3, _SINGLE: 2e-5}
_OFF = 4e-3
"""One rounding of the result, relative, and what float32 sums are off by where values of about a thousand cancel."""


@dataclass(frozen=True)
class Step(Case):
    """``digits``: whether it shows what is rounded. It stays in the referee."""

    digits: bool = False


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield from _plain_cases(sampler)
    yield from _ragged_cases(sampler)
    yield from _garbage_cases(sampler)
    yield from _float32_cases(sampler)
    yield from _strided_cases(sampler)
    yield from _edge_cases(sampler)


def _plain_cases(sampler: Sampler) -> Iterator[Case]:
    """Whole blocks, powers of two, each dtype; key heads that several query heads share, or none."""
    sides = [(4, 4, 2, 16), (8, 8, 2, 16), (16, 2, 2, 16)]
    for dtype, (size, heads, kv_heads, dim) in zip(sampler.shuffled(_HALF, _BRAIN, _SINGLE), sides, strict=True):
        case = paged(sampler, dtype, [2 * size, 2 * size], size, heads, kv_heads, dim)
        yield _case(("values", "once", "blocks"), case)


def _ragged_cases(sampler: Sampler) -> Iterator[Case]:
    size, odd = 8, sampler.choice([5, 7])
    lengths = sampler.shuffled(0, 1, size - 1, size, size + 1, size + sampler.integer(2, 6))
    yield _case(("ends", "once"), paged(sampler, _HALF, lengths, size, 2, 1, 16, more=1))
    # No side is a power of two: heads of a group, a block, a head.
    lengths = sampler.shuffled(odd - 1, 2 * odd + 1)
    yield _case(("ends", "once"), paged(sampler, _SINGLE, lengths, odd, 6, 2, sampler.choice([18, 20, 22])))
    yield _case(("ends", "once"), paged(sampler, _SINGLE, sampler.shuffled(1, 3), 1, 1, 1, 2))
    yield _case(("ends", "once"), paged(sampler, _SINGLE, [65], 64, 16, 1, 128))


def _garbage_cases(sampler: Sampler) -> Iterator[Case]:
    size = sampler.choice([4, 8])
    # The last table is full: whoever looks one column further leaves the array.
    lengths = [*sampler.shuffled(size, 2 * size), 3 * size]
    case = paged(sampler, sampler.choice([_HALF, _BRAIN]), lengths, size, 4, 2, 16, shared=True)
    yield _case(("blocks", "once"), case)
    wide = paged(sampler, _HALF, sampler.shuffled(size, 2 * size), size, 2, 1, 16)
    more = torch.full((2, 40), 2**31 - 1, dtype=torch.int32)
    yield _case(("once",), wide, way="wider", more={"tables": torch.cat([wide.tables, more], 1)})


def _float32_cases(sampler: Sampler) -> Iterator[Case]:
    for dtype in sampler.shuffled(_HALF, _BRAIN):
        yield _case(("float32",), _cancelling(sampler, dtype), digits=True)
    yield _case(("float32",), _far_scores(sampler))


def _cancelling(sampler: Sampler, dtype: torch.dtype) -> Paged:
    """Values of about a thousand whose weighted sum is nearly 0: half the digits do not find it."""
    size, length = 4, sampler.choice([12, 16])
    case = paged(sampler, dtype, [length], size, 2, 2, 32)
    tokens = list(case.places(0))
    for head in range(2):
        keys = torch.stack([case.k_cache[block, slot, head] for block, slot in tokens]).double()
        scores = keys @ case.q[0, head].double() / 32**0.5
        values = 1000 * sampler.within_one(length, 32, dtype=torch.float64)
        values = values.to(dtype).double()
        weights, best = torch.softmax(scores, 0), int(scores.argmax())
        values[best] = 0
        values[best] = -(weights @ values) / weights[best]
        for (block, slot), value in zip(tokens, values):
            case.v_cache[block, slot, head] = value.to(dtype)
    return case


def _far_scores(sampler: Sampler) -> Paged:
    """Rising, falling, all far below 0, and as far from 0 as scores get. Exact: one element of a query is not 0."""
    size, length = 4, 8
    step = sampler.integer(30, 40)
    near = torch.tensor(sampler.permutation(range(length))).double() / 8
    alone = torch.full((length,), -2e29, dtype=torch.float64)
    alone[sampler.integer(0, length - 1)] = -1e29
    scores = [step * torch.arange(length) + near, -step * torch.arange(length) + near, near - 300, alone, near * 2e28]
    scores = sampler.permutation(scores)
    case = paged(sampler, _SINGLE, [length] * len(scores), size, 2, 1, 16)
    case.q[...] = 0
    case.q[..., 3] = 4.0
    for sequence, row in enumerate(scores):
        for (block, slot), score in zip(case.places(sequence), row):
            case.k_cache[block, slot, 0, 3] = score
    return case


def _strided_cases(sampler: Sampler) -> Iterator[Case]:
    size = 4
    for layout in sampler.shuffled("one allocation", "heads before tokens", "tokens before heads"):
        lengths = sampler.shuffled(size, 2 * size)
        case = paged(sampler, _HALF, lengths, size, 4, 2, 16)
        yield _case(("strides",), case.laid_out(layout))
    far = paged(sampler, _HALF, [3 * size], size, 2, 1, 16, more=1, spare=0)
    yield _case(("strides",), far, way="far")


def _edge_cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(("edges",), paged(sampler, _HALF, [4, 8], 4, 4, 2, 16, more=1), way="again")
    yield _case(("edges",), paged(sampler, sampler.choice([_HALF, _SINGLE]), [], 4, 4, 2, 16))
    yield _case(("edges",), paged(sampler, sampler.choice([_BRAIN, _SINGLE]), [0, 0], 4, 2, 2, 16))
    few = paged(sampler, _HALF, [4, 8], 4, 4, 2, 16)
    many = {"q": few.q.repeat(3, 1, 1), "tables": few.tables.repeat(3, 1), "lengths": few.lengths.repeat(3)}
    yield _case(("once",), few, way="more", more=many)
    for wrong in _misfits(sampler):
        yield _case(("edges",), wrong, raises="ValueError")


def _misfits(sampler: Sampler) -> Iterator[Paged]:
    """One thing wrong in each; a batch of none has to fit too."""
    for lengths in ([5, 3], []):
        rows = len(lengths)
        yield paged(sampler, _HALF, lengths, 4, 3, 2, 16)
        yield paged(sampler, _HALF, lengths, 4, 2, 4, 16)
        for changed in (
            {"q": sampler.tensor(rows, 4, sampler.choice([15, 17]), dtype=_HALF)},
            {"tables": torch.zeros(rows + 1, 3, dtype=torch.int32)},
            {"lengths": torch.ones(rows + 1, dtype=torch.int32)},
            {"q": sampler.tensor(rows, 4, 16, dtype=_SINGLE)},
        ):
            yield paged(sampler, _HALF, lengths, 4, 4, 2, 16).but(**changed)
    whole = paged(sampler, _HALF, [5, 3], 4, 4, 2, 16)
    blocks = len(whole.v_cache)
    for shape in (
        (blocks - 1, 4, 2, 16),
        (blocks, 5, 2, 16),
        (blocks, 4, 1, 16),
        (blocks, 4, 4, 16),
        (blocks, 4, 2, 17),
    ):
        yield whole.but(v_cache=sampler.tensor(*shape, dtype=_HALF))
    yield whole.but(v_cache=whole.v_cache.float())
    yield whole.but(v_cache=whole.v_cache.bfloat16())
    yield whole.but(k_cache=whole.k_cache.bfloat16())
    yield whole.but(q=whole.q.double(), k_cache=whole.k_cache.double(), v_cache=whole.v_cache.double())
    yield whole.but(q=whole.q[0])
    yield whole.but(k_cache=whole.k_cache[:, 0], v_cache=whole.v_cache[:, 0])
    yield whole.but(tables=whole.tables[:, 0])
    yield whole.but(tables=whole.tables[:1])
    yield whole.but(lengths=whole.lengths[:, None])
    yield whole.but(lengths=whole.lengths[:1])


def _case(criteria: tuple[str, ...], case: Paged, way: str = "once", more: dict | None = None, **kept: object) -> Step:
    """kept: what the scenario is not told. All cases have the same names in their inputs."""
    return Step(criteria, {**case.inputs(), "way": way, "more": more or {}}, **kept)


def _value_problem(case: Step, evidence: dict, message: str) -> str | None:
    inputs, found = case.inputs, evidence["result"]
    expected = attended(inputs)
    if problem := tensor_problem(found, expected.to(inputs["q"].dtype)):
        return problem
    before = [inputs[name] for name in ("q", "k_cache", "v_cache", "tables", "lengths")]
    if "inputs" in evidence and not all(_same_bits(*pair) for pair in zip(before, evidence["inputs"], strict=True)):
        return "An input is not what it was: the cache belongs to the next step too."
    if problem := own_memory_problem({"handed_out_twice": False, "contiguous": True, "is_an_input": False} | evidence):
        return problem
    relative, absolute = (_ROUNDED[found.dtype], _OFF) if case.digits else (_TOLERANCE[found.dtype],) * 2
    return values_problem(found, expected, relative, message, absolute)


def _same_bits(before: torch.Tensor, after: object) -> bool:
    """Whether the storage of ``before`` still holds what it held, NaN too."""
    return isinstance(after, torch.Tensor) and torch.equal(_bytes(before), _bytes(after))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "The result is not softmax(q k / sqrt(head_dim)) v over the sequence's tokens, with the key head that a query head uses.",
    )


def _ends_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Where a length is no multiple of a block, or a side no power of two, the result is wrong: what lies beyond an end does "
        "not count, and a sequence of no token gives zeros.",
    )


def _blocks_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    message = "What is not the sequence's is used: another's block, a column past its last block, or a slot that holds no token."
    return fault_problem(seen) or _value_problem(case, evidence, message)


def _float32_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Digits are lost, or large scores overflow: scores, weights and sums stay in float32, and exp is taken of the distance "
        "from the largest score so far.",
    )


def _strides_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Where an input is a part of something wider, or lies in another order, other elements are used: each dimension of each "
        "tensor has a stride of its own.",
    )


def _edges_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "A batch of no sequence, or of none with a token, has a result.")


def _once_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if case.inputs["more"]:
        return _two_steps_problem(case.inputs["way"], seen) or _second_problem(case, evidence)
    if problem := launches_problem(seen) or written_once_problem(seen, evidence["result"]):
        return problem
    return _loads_problem(case.inputs, seen)


def _loads_problem(inputs: dict, seen: Observation) -> str | None:
    """Arrays as large as q, the tables or the lengths are those; all else that is read is keys and values."""
    queries, *others = (inputs[name].nbytes for name in ("q", "tables", "lengths"))
    uses = seen.launches[0].arrays
    loaded = sum(use.read_bytes for use in uses if use.bytes not in (queries, *others))
    needed = needed_bytes(inputs)
    if loaded > needed:
        return (
            f"{loaded / max(needed, 1):.2f} times the bytes of keys and values that are needed: each token's are loaded "
            "once for all query heads that share them, and what lies beyond the end of a sequence is not loaded."
        )
    if loaded < needed:
        return "Not every key and value is loaded."
    if queries not in others and sum(use.read_bytes for use in uses if use.bytes == queries) > queries:
        return "Elements of q are loaded more than once."
    return None


def _two_steps_problem(way: str, seen: Observation) -> str | None:
    """Of two steps that differ in how wide their tables are, or in how many sequences there are."""
    if len(seen.launches) != 2:
        return "Two steps have not two launches: one is enough for each."
    one, other = seen.launches
    if way == "wider" and any(one.total(what) != other.total(what) for what in ("requests", "flops")):
        return "Wider tables cost loads or arithmetic: a program's work goes with the length of its sequence."
    if way == "more" and one.grid[1:] != other.grid[1:]:
        return "The grid grows with the batch along y or z, where it ends at 65,535: along x there is room for many sequences."
    return None


def _second_problem(case: Step, evidence: dict) -> str | None:
    """Of the step with ``more`` in place of some inputs: who computes the first once more has not taken it."""
    inputs, found = case.inputs | case.inputs["more"], evidence["second"]
    message = "A second step, of other tables or of more sequences, has a wrong result."
    if problem := values_problem(found, attended(inputs), _TOLERANCE[inputs["q"].dtype], message):
        return problem
    return None if evidence["second_bytes"] == found.nbytes else UNWRITTEN


def _judge_far(case: Step, evidence: dict) -> Iterator[Failure]:
    message = (
        "In a cache of more than 2**31 elements others are used: a block's number is int32, and so is its product."
    )
    if problem := _value_problem(case, evidence, message) or _far_work_problem(evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)


def _far_work_problem(evidence: dict) -> str | None:
    """The CPU keeps no count of its own, as a card does: what is asked is one launch that wrote all."""
    seen = Observation.from_dict(evidence["seen"])
    computed = [op for op in seen.computing_ops if op not in ZEROS]
    if foreign := [*computed, *(copy.kind for copy in seen.copies)]:
        return f"On the CPU, PyTorch did a part of the work ({foreign[0]}): the kernel runs there just as well."
    if len(seen.launches) != 1:
        return f"On the CPU, {plural(len(seen.launches), 'kernel')} launched: one launch is due there too."
    return None if evidence["kernel_bytes"] == evidence["result"].nbytes else UNWRITTEN


_PROBLEM = {
    "values": _values_problem,
    "ends": _ends_problem,
    "blocks": _blocks_problem,
    "float32": _float32_problem,
    "strides": _strides_problem,
    "once": _once_problem,
    "edges": _edges_problem,
}
_judge_step = judge_own(_PROBLEM, edge="ends")


def _judge(case: Step, evidence: dict) -> Iterator[Failure]:
    yield from (_judge_far if case.inputs["way"] == "far" else _judge_step)(case, evidence)


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of your own gives the attention of each sequence over its blocks"),
        Criterion("ends", 1, "lengths that fill no block and sides that fill no tile are right too", ("values",)),
        Criterion("blocks", 1, "nothing is used that is not the sequence's", ("values",)),
        Criterion("float32", 1, "scores, weights and sums are float32, and none overflows", ("values",)),
        Criterion("strides", 1, "tensors in any layout, and caches of any size, are right too", ("values",)),
        Criterion("once", 2, "one launch loads the keys and values of a sequence once for each key head", ("values",)),
        Criterion("edges", 1, "no sequence, no token, a second call and arguments that do not fit", ("values",)),
    ),
    cases=_cases,
    judge=_judge,
)
