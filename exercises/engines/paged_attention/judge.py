"""E19.6 paged_attention: cases and judge."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, tensor_problem
from autograder.judge.own_work import UNWRITTEN, ZEROS
from exercises.engines.paged_attention.cache import Paged, attended, kv_bytes, paged, table_bytes
from exercises.kernels.own_kernel import (
    fault_problem,
    launches_problem,
    own_memory_problem,
    own_problem,
    values_problem,
    written_once_problem,
)
from gpulab import Observation
from gpulab.observe.launches import Launch

_HALF, _BRAIN, _SINGLE = torch.float16, torch.bfloat16, torch.float32
_TOLERANCE = 2e-2
"""Where digits are not the point, so that a sum in 16 bits loses ``float32`` alone."""
_ROUNDED = {_HALF: 6e-4, _BRAIN: 5e-3, _SINGLE: 2e-5}
_OFF = 4e-3
"""One rounding of the result, relative, and what float32 sums are off by where values of about a thousand cancel."""
_ARGUMENTS = 64
"""That are no tensors, at most: whoever hands over more hands over the result."""

_ATTENTION = "The result is not softmax(q k / sqrt(head_dim)) v over the sequence's tokens, with the key head that a query head uses."
_ENDS = (
    "Where a length is no multiple of a block, or a side no power of two, the result is wrong. Look at the masks: places "
    "beyond an end get a score of minus infinity, and are not loaded."
)
_BLOCKS = (
    "The result is wrong where two tables share a block and other blocks hold NaN. Look at which column of the table is used "
    "for a token, and which slot of its block."
)
_DIGITS = (
    "The result is off where values of about a thousand cancel: queries, keys, values, weights and sums are to be float32 "
    "from the load to the store."
)
_SUMS = "With many tokens of small weight the result is off: the running sums are to be float32 in every step."
_SCORES = (
    "The result is wrong for large scores: exp is taken of the distance from the largest score so far, which begins at minus "
    "infinity."
)
_MASKED = (
    "The result is wrong where all scores are about -1e10 and the last block is not full: what no token has gets a score of "
    "minus infinity, since a finite number may be above the others."
)
_LAYOUT = (
    "The result is wrong where an input is a part of something wider, or its dimensions lie in another order: use "
    "the strides that each tensor has."
)
_FAR = "The result is wrong where {} lie so far apart that an offset passes 2**31: an int32 times a stride is an int32."
_EMPTY = "The result is wrong in a batch with no sequences, or with some of no token: for those, zeros are due."
_AGAIN = "The result of an ordinary step, the first of several, is wrong."
_SECOND = "A second step, with wider tables or with more sequences, has a wrong result."


@dataclass(frozen=True)
class Step(Case):
    """``says``: what a wrong result means, or which exception is due for what. ``digits``: whether it shows what is rounded."""

    says: str = ""
    digits: bool = False


def _case(criteria: tuple[str, ...], case: Paged, says: str, digits: bool = False, **way: object) -> Step:
    """All cases have the same names in their inputs."""
    inputs = {**case.inputs(), "again": False, "more": {}, "far": [], "axis": 0}
    return Step(criteria, inputs | way, says=says, digits=digits)


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield from _plain_cases(sampler)
    yield from _ragged_cases(sampler)
    yield from _garbage_cases(sampler)
    yield from _float32_cases(sampler)
    yield from _strided_cases(sampler)
    yield from _far_cases(sampler)
    yield from _edge_cases(sampler)


def _plain_cases(sampler: Sampler) -> Iterator[Case]:
    """Whole blocks, powers of two; key heads that several query heads share, or none. bfloat16 is for ``float32`` alone."""
    sides = [(4, 4, 2, 16), (8, 8, 2, 16), (16, 2, 2, 16)]
    for dtype, (size, heads, kv_heads, dim) in zip(sampler.shuffled(_HALF, _SINGLE, _SINGLE), sides, strict=True):
        case = paged(sampler, dtype, [2 * size, 2 * size], size, heads, kv_heads, dim)
        yield _case(("values", "once", "blocks"), case, _ATTENTION)


def _ragged_cases(sampler: Sampler) -> Iterator[Case]:
    size, odd = 8, sampler.choice([5, 7])
    lengths = sampler.shuffled(1, size - 1, size, size + 1, size + sampler.integer(2, 6))
    yield _case(("ends", "once"), paged(sampler, _HALF, lengths, size, 2, 1, 16, more=1), _ENDS)
    # No side is a power of two: heads of a group, a block, a head.
    lengths = sampler.shuffled(odd - 1, 2 * odd + 1)
    yield _case(("ends", "once"), paged(sampler, _SINGLE, lengths, odd, 6, 2, sampler.choice([18, 20, 22])), _ENDS)
    yield _case(("ends", "once"), paged(sampler, _SINGLE, sampler.shuffled(1, 3), 1, 1, 1, 2), _ENDS)
    yield _case(("ends", "once"), paged(sampler, _SINGLE, [72], 64, 16, 1, 128), _ENDS)


def _garbage_cases(sampler: Sampler) -> Iterator[Case]:
    size = sampler.choice([4, 8])
    # The last table is full: whoever looks one column further leaves the array.
    lengths = [*sampler.shuffled(size, 2 * size), 3 * size]
    case = paged(sampler, sampler.choice([_HALF, _SINGLE]), lengths, size, 4, 2, 16, shared=True)
    yield _case(("blocks", "once"), case, _BLOCKS)
    wide = paged(sampler, _HALF, sampler.shuffled(size, 2 * size), size, 2, 1, 16)
    columns = torch.full((2, 40), 2**31 - 1, dtype=torch.int32)
    more = {"tables": torch.cat([wide.tables, columns], 1), "q": wide.q.clone()}
    yield _case(("once",), wide, _SECOND, more=more)


def _float32_cases(sampler: Sampler) -> Iterator[Case]:
    for dtype in sampler.shuffled(_HALF, _BRAIN, _SINGLE):
        yield _case(("float32",), _cancelling(sampler, dtype), _DIGITS, digits=True)
    for dtype in sampler.shuffled(_HALF, _BRAIN):
        yield _case(("float32",), _swallowed(sampler, dtype), _SUMS, digits=True)
    yield _case(("float32",), _far_scores(sampler), _SCORES)
    low = torch.full((1, sampler.choice([5, 6, 7])), -1e10, dtype=torch.float64)
    masked = _scored(sampler, _SINGLE, low)
    masked.v_cache[~masked.v_cache.isnan()] = 1.0
    yield _case(("float32",), masked, _MASKED)


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


def _swallowed(sampler: Sampler, dtype: torch.dtype) -> Paged:
    """A block's weights, after the first, are less than half the last digit of a sum in that dtype: only together do they count."""
    size, blocks = 4, 9
    scores = torch.zeros(1, size * blocks, dtype=torch.float64)
    scores[0, size:] = torch.tensor(0.4 * torch.finfo(dtype).eps).double().log()
    case = _scored(sampler, dtype, scores)
    case.v_cache[...] = sampler.integer(200, 1000)
    return case


def _far_scores(sampler: Sampler) -> Paged:
    """Rising, falling, all far below 0, and as far from 0 as scores get."""
    length, step = 8, sampler.integer(30, 40)
    near = torch.tensor(sampler.permutation(range(length))).double() / 8
    alone = torch.full((length,), -2e29, dtype=torch.float64)
    alone[sampler.integer(0, length - 1)] = -1e29
    scores = [step * torch.arange(length) + near, -step * torch.arange(length) + near, near - 300, alone, near * 2e28]
    case = _scored(sampler, _SINGLE, torch.stack(sampler.permutation(scores)))
    case.q[:, 1] /= 1000  # The heads of a group have their largest scores far from each other.
    return case


def _scored(sampler: Sampler, dtype: torch.dtype, scores: torch.Tensor) -> Paged:
    """Sequences with those scores, exactly: one element of a query is not 0."""
    case = paged(sampler, dtype, [scores.shape[1]] * len(scores), 4, 2, 1, 16)
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
        yield _case(("strides",), case.laid_out(layout), _LAYOUT)


def _far_cases(sampler: Sampler) -> Iterator[Case]:
    """Each stride that a kernel multiplies by, large. The third index along it is the first beyond 2**31, so there are three."""
    caches, size = ["k_cache", "v_cache"], 4
    for far, axis, lengths, heads, kv_heads, what in (
        (caches, 0, [3 * size], 2, 1, "blocks of the cache"),
        (caches, 1, [size], 2, 1, "the slots of a block"),
        (caches, 2, [size], 3, 3, "the key heads of a slot"),
        (["q"], 0, [size] * 3, 1, 1, "the rows of `q`"),
        (["q"], 1, [size], 3, 1, "the heads of `q`"),
        (["tables"], 0, [size] * 3, 1, 1, "the rows of `tables`"),
    ):
        case = paged(sampler, _HALF, lengths, size, heads, kv_heads, 16, spare=0)
        yield _case(("strides",), case, _FAR.format(what), far=far, axis=axis)


def _edge_cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(("edges",), paged(sampler, _HALF, [4, 8], 4, 4, 2, 16, more=1), _AGAIN, again=True)
    yield _case(("edges",), paged(sampler, sampler.choice([_HALF, _SINGLE]), [], 4, 4, 2, 16), _EMPTY)
    yield _case(("edges",), paged(sampler, sampler.choice([_HALF, _SINGLE]), [0, 0], 4, 2, 2, 16), _EMPTY)
    lengths = sampler.shuffled(0, 4, 8)
    yield _case(("edges", "once"), paged(sampler, _HALF, lengths, 4, 4, 2, 16, more=1), _EMPTY)
    few = paged(sampler, _HALF, [4, 8], 4, 4, 2, 16)
    many = {"q": few.q.repeat(3, 1, 1), "tables": few.tables.repeat(3, 1), "lengths": few.lengths.repeat(3)}
    yield _case(("once",), few, _SECOND, more=many)
    for why, wrong in _misfits(sampler):
        yield Step(("edges",), _case((), wrong, "").inputs, raises="ValueError", says=f"{why}.")


def _misfits(sampler: Sampler) -> Iterator[tuple[str, Paged]]:
    """One thing wrong in each; a batch of none has to fit too."""
    for lengths in ([5, 3], []):
        rows = len(lengths)
        yield "`heads` is no multiple of `kv_heads`", paged(sampler, _HALF, lengths, 4, 3, 2, 16)
        yield "There are fewer heads than `kv_heads`", paged(sampler, _HALF, lengths, 4, 2, 4, 16)
        fits = paged(sampler, _HALF, lengths, 4, 4, 2, 16)
        other = sampler.choice([15, 17])
        yield "`q` has another `head_dim` than the caches", fits.but(q=sampler.tensor(rows, 4, other, dtype=_HALF))
        yield "`tables` has another `batch` than `q`", fits.but(tables=torch.zeros(rows + 1, 3, dtype=torch.int32))
        yield "`lengths` has another `batch` than `q`", fits.but(lengths=torch.ones(rows + 1, dtype=torch.int32))
        yield "`q` has another dtype than the caches", fits.but(q=fits.q.float())
    whole = paged(sampler, _HALF, [5, 3], 4, 4, 2, 16)
    blocks = len(whole.v_cache)
    for shape in (
        (blocks - 1, 4, 2, 16),
        (blocks, 5, 2, 16),
        (blocks, 4, 1, 16),
        (blocks, 4, 4, 16),
        (blocks, 4, 2, 17),
    ):
        v_cache = sampler.tensor(*shape, dtype=_HALF)
        yield "`v_cache` has another shape than `k_cache`", whole.but(v_cache=v_cache)
    yield "`v_cache` is of another dtype than `q` and `k_cache`", whole.but(v_cache=whole.v_cache.float())
    yield "`v_cache` is of another dtype than `q` and `k_cache`", whole.but(v_cache=whole.v_cache.bfloat16())
    yield "`k_cache` is of another dtype than `q` and `v_cache`", whole.but(k_cache=whole.k_cache.bfloat16())
    doubles = whole.but(q=whole.q.double(), k_cache=whole.k_cache.double(), v_cache=whole.v_cache.double())
    yield "`q` and the caches are float64", doubles
    yield "`q` has two dimensions", whole.but(q=whole.q[0])
    yield "The caches have three dimensions", whole.but(k_cache=whole.k_cache[:, 0], v_cache=whole.v_cache[:, 0])
    yield "`tables` has one dimension", whole.but(tables=whole.tables[:, 0])
    yield "`tables` has another `batch` than `q`", whole.but(tables=whole.tables[:1])
    yield "`lengths` has two dimensions", whole.but(lengths=whole.lengths[:, None])
    yield "`lengths` has another `batch` than `q`", whole.but(lengths=whole.lengths[:1])


def _judge(case: Step, evidence: dict) -> Iterator[Failure]:
    """One fault costs one criterion of a case, the first of those that it decides, unless the result is not the kernel's."""
    if case.raises:
        problem = error_problem(evidence, case.raises)
        yield from (Failure(criterion, f"{problem} {case.says}") for criterion in case.criteria if problem)
        return
    seen = Observation.from_dict(evidence["seen"])
    if case.inputs["far"]:
        problem = _value_problem(case, evidence, seen) or _far_work_problem(case, evidence, seen)
        yield from (Failure(criterion, problem) for criterion in case.criteria if problem)
        return
    foreign = own_problem(evidence, seen) or _arguments_problem(evidence)
    if foreign == UNWRITTEN and case.criteria[0] in ("ends", "edges"):
        missing = "zeros are due for a sequence of no token" if case.says == _EMPTY else "no program stores them"
        yield Failure(case.criteria[0], f"Elements of the result are left unwritten: {missing}.")
    elif foreign:
        yield from (Failure(criterion, foreign) for criterion in case.criteria)
    else:
        problems = ((criterion, _problem(criterion, case, evidence, seen)) for criterion in case.criteria)
        yield from [Failure(criterion, problem) for criterion, problem in problems if problem][:1]


def _problem(criterion: str, case: Step, evidence: dict, seen: Observation) -> str | None:
    if criterion == "once":
        return _once_problem(case, evidence, seen)
    before = None
    if criterion in ("edges", "strides"):
        before = own_memory_problem(evidence if criterion == "edges" else _NEW | {"contiguous": evidence["contiguous"]})
    elif case.says == _MASKED and evidence["result"].isnan().any():
        return None  # Places beyond the end are used: ``ends`` says so.
    elif criterion == "float32" and evidence["tf32"]:
        before = (
            'tl.dot of float32 rounds to TF32, with ten bits of mantissa, unless input_precision="ieee" is asked for.'
        )
    return before or _value_problem(case, evidence, seen)


_NEW = {"handed_out_twice": False, "contiguous": True, "is_an_input": False}


def _value_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    inputs, found = case.inputs, evidence["result"]
    expected = attended(inputs)
    if problem := tensor_problem(found, expected.to(inputs["q"].dtype)):
        return problem
    relative, absolute = (_ROUNDED[found.dtype], _OFF) if case.digits else (_TOLERANCE, _TOLERANCE)
    problem = values_problem(found, expected, relative, case.says, absolute)
    used = [fault.line for launch in seen.launches for fault in launch.faults if fault.kind == "masked lane used"]
    if problem and used:
        return (
            f"`{used[0].text:.80}` has no `other`: what its mask leaves out is undefined, and the result depends on it."
        )
    return problem


def _arguments_problem(evidence: dict) -> str | None:
    if any(launch["others"] > _ARGUMENTS for launch in evidence["handed"]):
        return f"A kernel is handed more than {_ARGUMENTS} numbers: it computes from tensors."
    return None


def _once_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    if case.inputs["more"]:
        return _two_steps_problem(case.inputs["more"], seen) or _second_problem(case, evidence)
    if problem := launches_problem(seen) or written_once_problem(seen, evidence["result"]):
        return problem
    if problem := fault_problem(seen):
        return problem
    return _loads_problem(case.inputs, seen.launches[0], evidence["handed"][0]["arrays"])


def _loads_problem(inputs: dict, launch: Launch, lies_in: dict[str, str]) -> str | None:
    """By the storage that an array lies in, whatever view of it the kernel was handed."""
    uses = [(lies_in.get(use.array, ""), use) for use in launch.arrays]
    loaded = sum(use.read_bytes for name, use in uses if name in ("k_cache", "v_cache"))
    needed = kv_bytes(inputs)
    if loaded > needed:
        return (
            f"{loaded / max(needed, 1):.2f} times the bytes of keys and values that are needed: each token's are loaded "
            "once for all query heads that share them, and what lies beyond an end is not loaded."
        )
    if loaded < needed:
        return "Not every key and value is loaded."
    if sum(use.read_bytes for name, use in uses if name == "q") > inputs["q"].nbytes:
        return "Elements of q are loaded more than once."
    if sum(use.distinct_read_bytes for name, use in uses if name == "tables") > table_bytes(inputs):
        return "Columns of `tables` beyond a sequence's last block are loaded."
    return None


def _two_steps_problem(more: dict, seen: Observation) -> str | None:
    """Of two steps that differ in how wide their tables are, or in how many sequences there are."""
    if len(seen.launches) != 2:
        return f"Two steps have {len(seen.launches)} launches: one is due for each."
    one, other = seen.launches
    if "lengths" in more:
        if one.grid[1:] != other.grid[1:]:
            return "The grid grows with the batch along y or z, where it ends at 65,535: along x there is room for many sequences."
    elif any(one.total(what) != other.total(what) for what in ("requests", "flops")):
        return "Wider tables cost loads or arithmetic: a program's work goes with the length of its sequence."
    return None


def _second_problem(case: Step, evidence: dict) -> str | None:
    """Of the step with ``more`` in place of some inputs: who computes the first once more has not taken it."""
    found = evidence["second"]
    if problem := values_problem(found, attended(case.inputs | case.inputs["more"]), _TOLERANCE, case.says):
        return problem
    return None if evidence["second_bytes"] == found.nbytes else UNWRITTEN


def _far_work_problem(case: Step, evidence: dict, seen: Observation) -> str | None:
    """The CPU keeps no count of its own, as a card does: what is asked is that kernels loaded enough, and wrote all."""
    computed = [op for op in seen.computing_ops if op not in ZEROS]
    if foreign := [*computed, *(copy.kind for copy in seen.copies)]:
        return f"On the CPU, PyTorch did a part of the work ({foreign[0]}): the kernel runs there just as well."
    if evidence["kernel_bytes"] != evidence["result"].nbytes:
        return "On the CPU, the result is not a new tensor that a kernel of yours wrote whole."
    loaded = sum(use.read_bytes for launch in seen.launches for use in launch.arrays)
    return (
        "On the CPU, keys and values are not loaded by a kernel of yours." if loaded < kv_bytes(case.inputs) else None
    )


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of your own gives the attention of each sequence over its blocks"),
        Criterion("ends", 1, "lengths that fill no block and sides that fill no tile are right too", ("values",)),
        Criterion("blocks", 1, "nothing is used that is not the sequence's", ("values",)),
        Criterion("float32", 1, "scores, weights and sums are float32 for each dtype, and none overflows", ("values",)),
        Criterion("strides", 1, "tensors of any strides are right too", ("values",)),
        Criterion("once", 2, "one launch loads what a sequence needs once, and nothing beyond its end", ("values",)),
        Criterion(
            "edges",
            1,
            "an empty batch or sequence, a second call and arguments that do not fit are right too",
            ("values",),
        ),
    ),
    cases=_cases,
    judge=_judge,
)
