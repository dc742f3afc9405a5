"""E14.2 best_bucket: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem


def _cases(draw: Draw) -> Iterator[Case]:
    # WRITE(best_bucket): by draw.each, around, sizes, values or layouts, every case that a wrong solution can turn on
    yield Case(("values",), {"x": draw.tensor(3, 4)})


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    # WRITE(best_bucket): what is right, and for each misconception a sentence that names it and not the case
    if problem := tensor_problem(evidence["result"], case.inputs["x"]):
        yield Lost("values", problem)


best_bucket = Exercise(
    "data_parallel.best_bucket",
    criteria=(Criterion("values", 1, "WRITE(best_bucket): what these points are for, after the words: earned when"),),
    cases=_cases,
    judge=_judge,
)
