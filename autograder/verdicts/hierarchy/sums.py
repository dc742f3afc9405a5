"""E4.1 row_sums: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem
from autograder.verdicts.hierarchy.kernels import did_less, efficiency, fault_problem, kept_bytes, not_by_kernels, read_bytes
from gpulab import Observation

_LEAST_EFFICIENCY = 0.6


def _row_sums_cases(draw: Draw) -> Iterator[Case]:
    about = ("values", "moved", "once", "safe")
    yield _case(about, draw, 32 * draw.integer(1, 2), 32 * draw.integer(3, 6))
    yield _case(about, draw, 32, 32 * draw.integer(4, 8))
    for rows, columns in _odd_sizes(draw):
        yield _case(("odd",), draw, rows, columns)


def _odd_sizes(draw: Draw) -> list[tuple[int, int]]:
    ragged = 32 * draw.integer(2, 4) + draw.integer(1, 31)
    some = draw.integer(5, 31)
    long = 1024 + draw.integer(1, 200)  # longer than a block has threads
    return [(draw.integer(33, 50), ragged), (2, long), (draw.integer(3, 9), some), (some, 1), (1, ragged), (some, 0), (0, some)]


def _case(about: tuple[str, ...], draw: Draw, rows: int, columns: int) -> Case:
    return Case(about, {"x": whole_numbers(draw, rows, columns)})


def whole_numbers(draw: Draw, *shape: int) -> torch.Tensor:
    """float32 from -8 to 8, never 0: a sum of a few thousand products is exact."""
    count = int(torch.Size(shape).numel())
    values = [draw.integer(1, 8) * draw.choice((-1, 1)) for _ in range(count)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def _judge_row_sums(case: Case, evidence: dict) -> Iterator[Lost]:
    x, seen = case.inputs["x"], Observation.from_dict(evidence["seen"])
    wrong = _values_problem(x, evidence, seen)
    for criterion in case.about:
        if problem := wrong if criterion in ("values", "odd") else _PROBLEM[criterion](x, seen):
            yield Lost(criterion, problem)


def _values_problem(x: torch.Tensor, evidence: dict, seen: Observation) -> str | None:
    due, launches = x.double().sum(1).float(), seen.launches
    if problem := tensor_problem(evidence["result"], due) or fault_problem(launches):
        return problem
    if x.numel() and (problem := not_by_kernels(evidence, seen, due)):
        return problem
    if not torch.equal(evidence["result"], due):
        return "A sum is wrong: is each element of a row added once, the last ones too, and by whom?"
    if not evidence["inputs_kept"]:
        return "The function changed its input."
    return did_less(launches, x.numel() - len(x), x.numel(), len(x) if x.numel() else 0)


def _moved_problem(x: torch.Tensor, seen: Observation) -> str | None:
    if efficiency(seen.launches) >= _LEAST_EFFICIENCY:
        return None
    return (
        f"Only {efficiency(seen.launches):.0%} of the bytes that moved were asked for: at one moment, neighbouring "
        "lanes read elements that lie in different sectors."
    )


def _once_problem(x: torch.Tensor, seen: Observation) -> str | None:
    result_bytes = len(x) * x.element_size()
    if read_bytes(seen.launches) <= x.nbytes + kept_bytes(seen.launches, result_bytes):
        return None
    return "Elements are read from global memory more than once: keep what is needed again in a variable."


def _safe_problem(x: torch.Tensor, seen: Observation) -> str | None:
    for launch in seen.launches:
        for race in launch.races:
            return (
                f"Two threads race in {race.space} memory ({race.kind}, at `{str(race.second_line.text):.80}`): a barrier "
                "has to stand between them, or an atomic operation has to do both."
            )
    return None


_PROBLEM = {"moved": _moved_problem, "once": _once_problem, "safe": _safe_problem}

row_sums = Exercise(
    "hierarchy.row_sums",
    criteria=(
        Criterion("values", 2, "a kernel of yours adds up each row"),
        Criterion("moved", 3, "at least 60 % of the bytes that move are asked for", ("values",)),
        Criterion("once", 1, "each element is read once", ("values",)),
        Criterion("safe", 1, "no two threads race", ("values",)),
        Criterion("odd", 1, "rows and columns of any number, 0 included, are added up", ("values",)),
    ),
    cases=_row_sums_cases,
    judge=_judge_row_sums,
)
