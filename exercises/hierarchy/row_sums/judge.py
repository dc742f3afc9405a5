"""E4.2 row_sums: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import raised_problem
from autograder.judge.own_work import ZEROS, own_work_problem
from exercises.hierarchy.numbers import whole_numbers
from exercises.hierarchy.own_kernel import (
    again_problem,
    answers_problem,
    did_less,
    efficiency,
    fault_problem,
    kept_bytes,
    order_problem,
    race_problem,
    read_bytes,
    result_problem,
)
from gpulab import Observation

_LEAST_EFFICIENCY = 0.6
_LONG = 96


def _row_sums_cases(sampler: Sampler) -> Iterator[Case]:
    for columns, kind in ((_LONG, "mixed"), (32 * sampler.integer(9, 10), "large")):
        yield _case("values", sampler, 32, columns, kind)
    for rows, columns, kind in _odd_sizes(sampler):
        yield _case("odd", sampler, rows, columns, kind)
    yield _case("odd", sampler, 32, 32, "mixed", again=True, side_stream=True, offset=sampler.integer(1, 7))
    few = sampler.integer(3, 9)
    yield Case(
        ("odd",),
        {"calls": [[torch.zeros(rows, columns)] for rows, columns in sampler.shuffled((0, 0), (few, 0), (0, few))]},
    )
    yield Case(("odd",), {"tall": [sampler.integer(2**16, 2**16 + 99), sampler.integer(1, 9)]})


def _odd_sizes(sampler: Sampler) -> Iterator[tuple[int, int, str]]:
    """Long and ragged, longer than a block has threads, many rows, about a warp's width, and one."""
    few = sampler.integer(3, 9)
    yield sampler.integer(33, 50), sampler.integer(_LONG + 1, 127), "negative"
    yield 2, 1024 + sampler.integer(1, 200), "large"
    yield sampler.integer(257, 300), 2, "mixed"
    yield from ((few, columns, "negative") for columns in sampler.around(32))
    yield from (
        (rows, columns, "large") for rows, columns in sampler.shuffled((1, 1), (few, 1), (1, sampler.integer(34, 70)))
    )


def _case(values: str, sampler: Sampler, rows: int, columns: int, kind: str, again: bool = False, **how: int) -> Case:
    """``values``: the criterion that a wrong sum loses."""
    criteria = (values, "once", "safe", *(["moved"] if columns >= _LONG else []))
    inputs = {"x": whole_numbers(sampler, rows, columns, kind=kind), **how}
    if again:
        inputs["again"] = [whole_numbers(sampler, rows, columns, kind=kind)]
    return Case(criteria, inputs)


def _judge_row_sums(case: Case, evidence: dict) -> Iterator[Failure]:
    if "answers" in evidence:
        if problem := _answers_problem(case, evidence):
            yield Failure("odd", problem)
        return
    if "error" in evidence:
        yield Failure(case.criteria[0], raised_problem(evidence["error"]))
        return
    x, seen = case.inputs["x"], Observation.from_dict(evidence["seen"])
    wrong = _values_problem(case, evidence, seen)
    for criterion in case.criteria:
        if problem := wrong if criterion in ("values", "odd") else _PROBLEM[criterion](x, seen):
            yield Failure(criterion, problem)


def _answers_problem(case: Case, evidence: dict) -> str | None:
    if "calls" in case.inputs:
        return answers_problem(evidence, [x.sum(1) for (x,) in case.inputs["calls"]])
    (answer,) = evidence["answers"]
    return raised_problem(answer["error"]) if "error" in answer else None


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    x, launches = case.inputs["x"], seen.launches
    expected, *expected_again = (rows.double().sum(1).float() for rows in (x, *case.inputs.get("again", [])))
    if problem := result_problem(evidence, expected):
        return problem
    if x.numel() and (problem := own_work_problem(evidence, seen, expected.nbytes, ZEROS)):
        return problem
    if problem := order_problem(seen) or (
        again_problem(evidence, expected, *expected_again) if expected_again else None
    ):
        return problem
    if not torch.equal(evidence["result"], expected):
        return (
            _safe_problem(x, seen)
            or "A sum is wrong: is each element of a row added once, the last ones too, and by whom?"
        )
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
    return race_problem(seen.launches) or fault_problem(seen.launches)


_PROBLEM = {"moved": _moved_problem, "once": _once_problem, "safe": _safe_problem}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of yours adds up each row"),
        Criterion("moved", 3, "at least 60 % of the bytes that move are requested", ("values",)),
        Criterion("once", 1, "each element is read once", ("values",)),
        Criterion("safe", 1, "there are no races and no out-of-bounds accesses", ("values",)),
        Criterion("odd", 1, "any number of rows and columns is added up, 0 included, call after call", ("values",)),
    ),
    cases=_row_sums_cases,
    judge=_judge_row_sums,
)
