"""E7.3 row_softmax: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise
from autograder.core.sampler import Sampler
from autograder.judge.expect import tensor_problem
from exercises.kernels.large import large, or_large
from exercises.kernels.own_kernel import (
    fault_problem,
    judge_own,
    launches_problem,
    outside,
    own_memory_problem,
    written_once_problem,
)
from gpulab import Observation
from gpulab.units import plural

_TOLERANCE = 1e-5
_MASKED = -float("inf")
_FARTHEST = 1e29


def _row_softmax_cases(sampler: Sampler) -> Iterator[Case]:
    ragged = sampler.integer(65, 120)
    yield _case(("values", "once", "bounds"), _scores(sampler, 2, sampler.choice([64, 128])), again=True)
    yield _case(("tail", "once", "bounds"), _scores(sampler, 2, ragged))
    yield _case(("tail",), _scores(sampler, 1, sampler.integer(33, 60)) - 30)
    yield _case(
        ("tail", "once", "bounds"), _scores(sampler, 1, sampler.integer(2100, 4095))
    )  # no tile of fixed size that fits the others
    yield _case(("tail",), _scores(sampler, 1, 2 * sampler.integer(2, 3) - 1))
    yield _case(("tail", "once", "bounds"), _scores(sampler, sampler.choice([5, 7]), 3))
    rows = sampler.integer(65_600, 70_000)  # more than CUDA launches along y or z
    yield large("once", torch.float32, (rows, 3), writes=3 * rows)
    # Far below 0 and close together: a lane that counts as 0 is the maximum, and no exp is left.
    yield _case(("stable",), _scores(sampler, 1, sampler.integer(33, 60)) / 5 - 200)
    yield _case(("stable",), _unlike(sampler))
    yield _case(("stable",), _far(sampler, sampler.integer(33, 60)))
    yield _case(("strides", "once"), _scores(sampler, 2, 128), columns=64)
    # What lies behind the end of a row is there, and is not the row's.
    wide = _scores(sampler, 2, 2 * ragged)
    yield _case(("once", "bounds"), wide, columns=ragged, first=sampler.integer(1, 9))
    yield _case(("edges", "bounds"), torch.zeros(0, ragged))
    yield _case(("edges", "bounds"), torch.zeros(0, ragged), columns=33)
    for columns in (1, 4096):
        yield _case(("edges",), _scores(sampler, 1, columns))
    for wrong in (_scores(sampler, ragged), _scores(sampler, 2, 3, 4), *_other_dtypes(sampler)):
        because = f"x is {wrong.dtype}" if wrong.ndim == 2 else f"x has {plural(wrong.ndim, 'dimension')}"
        inputs = {"x": wrong, "columns": None, "first": 0, "again": False}
        yield Case(("edges",), inputs, raises="ValueError", because=because)


def _other_dtypes(sampler: Sampler) -> Iterator[torch.Tensor]:
    """One of them with no rows."""
    for rows, dtype in zip(sampler.shuffled(0, 3, 3), (torch.float64, torch.float16, torch.int32)):
        yield sampler.tensor(rows, 16, dtype=dtype)


def _case(
    criteria: tuple[str, ...], x: torch.Tensor, columns: int | None = None, first: int = 0, again: bool = False
) -> Case:
    return Case(criteria, {"x": x, "columns": columns or x.shape[1], "first": first, "again": again})


def _scores(sampler: Sampler, *shape: int) -> torch.Tensor:
    """Distinct values between -5 and 5."""
    values = sampler.tensor(*shape)
    return 5 * values / values.abs().max()


def _unlike(sampler: Sampler) -> torch.Tensor:
    """Rows far above 0 and far below it, one of far scores, and some with positions masked: the future, the past, all but one."""
    high, low, far, *masked = _scores(sampler, 6, 64)
    first = sampler.integer(8, 56)
    for row, hidden in zip(masked, (slice(first, None), slice(first), slice(1, None)), strict=True):
        row[hidden] = _MASKED
    rows = [high + sampler.integer(200, 400), low - sampler.integer(200, 400), 100 * far, *masked]
    # Neighbours far apart: what one takes from the other is all it has left.
    return torch.stack([*rows[:2], *sampler.permutation(rows[2:])])


def _far(sampler: Sampler, columns: int) -> torch.Tensor:
    """Rows about as far from 0 as scores get; beside -inf every finite number is large."""
    one, two = sampler.permutation(range(columns))[:2]
    rows = torch.full((3, columns), _MASKED)
    rows[0, one], rows[1, [one, two]] = -_FARTHEST, torch.tensor([-_FARTHEST, -_FARTHEST / 2])
    rows[2] = _FARTHEST * _scores(sampler, columns) / 5
    return rows


def _value_problem(case: Case, evidence: dict, message: str) -> str | None:
    x, first, found = case.inputs["x"], case.inputs["first"], evidence["result"]
    expected = torch.softmax(x[:, first : first + case.inputs["columns"]].double(), 1)
    if problem := tensor_problem(found, expected.float()):
        return problem
    if not torch.equal(evidence["inputs"][0], x):
        return "The input is not what it was: the result belongs in a tensor of its own."
    if problem := own_memory_problem(evidence):
        return problem
    return None if torch.allclose(found.double(), expected, _TOLERANCE, _TOLERANCE) else message


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "The rows are not the softmax of the input's rows.")


def _tail_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if any(outside(launch) for launch in seen.launches):
        return "The tile is wider than the row, and its last lanes are not switched off."
    message = (
        "Where the tile is wider than the row, the result is wrong: a lane that the mask switches off must not count, "
        "neither in the maximum nor in the sum."
    )
    return message if any(launch.faults for launch in seen.launches) else _value_problem(case, evidence, message)


def _stable_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Large scores overflow, or masked ones (-inf) spoil their row: exp has to be taken of the distance from the row's maximum.",
    )


def _strides_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Where x is a part of a wider matrix, other elements are used: the next row begins x.stride(0) elements on.",
    )


def _once_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if problem := launches_problem(seen):
        return problem
    size = evidence["result"].nbytes
    read = seen.launches[0].total("read_bytes")
    if read > size:
        return f"Elements are loaded more than once ({read / size:.1f} loads for each): a row that fits in a tile is loaded once and stays in registers."
    if read < size:
        return "Not every element of the input is loaded."
    return written_once_problem(seen, evidence["result"])


def _bounds_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return fault_problem(seen)


def _edges_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "A matrix of one column or of no rows has a softmax too.")


_PROBLEM = {
    "values": _values_problem,
    "tail": _tail_problem,
    "stable": _stable_problem,
    "strides": _strides_problem,
    "once": _once_problem,
    "bounds": _bounds_problem,
    "edges": _edges_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of your own gives the softmax of each row"),
        Criterion("tail", 1, "rows that do not fill their tile are right", ("values",)),
        Criterion("bounds", 1, "no lane loads or stores out of bounds", ("values",)),
        Criterion("stable", 1, "large scores and masked scores are right", ("values",)),
        Criterion("strides", 1, "a slice of a wider matrix is right", ("values",)),
        Criterion("once", 2, "one launch loads each element once and stores each once", ("values",)),
        Criterion("edges", 1, "no rows, one column and wrong arguments", ("values",)),
    ),
    cases=_row_softmax_cases,
    judge=or_large(judge_own(_PROBLEM, edge="tail")),
)
