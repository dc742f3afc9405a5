"""E7.2 row_softmax: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise
from autograder.verdicts.expect import tensor_problem
from autograder.verdicts.kernels.own import fault_problem, judge_own, launches_problem, written_once_problem
from gpulab import Observation

_TOLERANCE = 1e-5
_MASKED = -float("inf")


def _row_softmax_cases(draw: Draw) -> Iterator[Case]:
    rows, ragged = draw.integer(3, 7), draw.integer(65, 120)
    yield _case(("values", "once", "bounds"), _scores(draw, rows, draw.choice([64, 128])))
    yield _case(("tail", "once", "bounds"), _scores(draw, rows, ragged))
    yield _case(("tail",), _scores(draw, rows, draw.integer(33, 60)) - 30)
    yield _case(("tail",), _scores(draw, 2, draw.integer(2100, 4096)))  # no tile of fixed size that fits the others
    yield _case(("stable",), _scores(draw, rows, 64) + draw.integer(200, 400))
    yield _case(("stable",), _hidden(draw, _scores(draw, rows, 64)))
    yield _case(("strides", "once"), _scores(draw, rows, 128), columns=64)
    yield _case(("edges",), torch.zeros(0, ragged), ragged)
    yield _case(("edges",), _scores(draw, rows, 1))
    for wrong in (_scores(draw, ragged), _scores(draw, 2, 3, 4), draw.tensor(rows, 16, dtype=torch.float64)):
        yield Case(("edges",), {"x": wrong, "columns": wrong.shape[-1], "refused": True})


def _case(about: tuple[str, ...], x: torch.Tensor, columns: int | None = None) -> Case:
    return Case(about, {"x": x, "columns": columns or x.shape[1], "refused": False})


def _scores(draw: Draw, *shape: int) -> torch.Tensor:
    """Distinct values between -5 and 5."""
    values = draw.tensor(*shape)
    return 5 * values / values.abs().max()


def _hidden(draw: Draw, x: torch.Tensor) -> torch.Tensor:
    """Some positions of each row are masked, as attention masks the future."""
    first = draw.integer(8, x.shape[1] - 8)
    x[:, first:] = _MASKED
    return x


def _value_problem(case: Case, evidence: dict, message: str) -> str | None:
    x, found = case.inputs["x"], evidence["result"]
    due = torch.softmax(x[:, : case.inputs["columns"]].double(), 1)
    if problem := tensor_problem(found, due.float()):
        return problem
    if not torch.equal(evidence["inputs"][0], x):
        return "The input is not what it was: the result belongs in a tensor of its own."
    return None if torch.allclose(found.double(), due, _TOLERANCE, _TOLERANCE) else message


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "The rows are not the softmax of the input's rows.")


def _tail_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if any(launch.faults for launch in seen.launches):
        return "The tile is wider than the row, and its last lanes are not switched off."
    return _value_problem(
        case,
        evidence,
        "Where the tile is wider than the row, the result is wrong: a lane that the mask switches off must not count, "
        "neither in the maximum nor in the sum.",
    )


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

row_softmax = Exercise(
    "kernels.row_softmax",
    criteria=(
        Criterion("values", 2, "a kernel of your own gives the softmax of each row"),
        Criterion("tail", 1, "rows that do not fill their tile are right too", ("values",)),
        Criterion("bounds", 1, "no lane uses an element that is not there", ("values",)),
        Criterion("stable", 1, "large scores and masked ones are right too", ("values",)),
        Criterion("strides", 1, "a part of a wider matrix is right too", ("values",)),
        Criterion("once", 2, "one launch loads each element once and stores each once", ("values",)),
        Criterion("edges", 1, "no rows, one column and wrong arguments", ("values",)),
    ),
    cases=_row_softmax_cases,
    judge=judge_own(_PROBLEM),
)
