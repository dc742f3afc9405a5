"""E14.4 reduce_metrics: cases and judge."""

from collections.abc import Iterator

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import tensor_problem


def _cases(draw: Draw) -> Iterator[Case]:
    # WRITE(reduce_metrics): by draw.each, around, sizes, values or layouts, every case that a wrong solution can turn on
    yield Case(("values",), {"x": draw.tensor(3, 4)})


def _judge(case: Case, evidence: dict) -> Iterator[Lost]:
    # WRITE(reduce_metrics): what is right, and for each misconception a sentence that names it and not the case
    if problem := tensor_problem(evidence["result"], case.inputs["x"]):
        yield Lost("values", problem)


reduce_metrics = Exercise(
    "data_parallel.reduce_metrics",
    criteria=(Criterion("values", 1, "WRITE(reduce_metrics): what these points are for, after the words: earned when"),),
    cases=_cases,
    judge=_judge,
)
