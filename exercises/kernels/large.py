"""Sizes at which one program of a launch is counted: how many launches, and whether they reach the end."""

import math
from collections.abc import Callable, Iterator

import torch

from autograder.core.exercise import Case, Failure
from exercises.kernels.own_kernel import in_memory_problem, launches_problem
from gpulab import Observation


def large(criterion: str, dtype: torch.dtype, *shapes: tuple[int, ...], writes: int) -> Case:
    """Inputs of these shapes, whose result has ``writes`` elements. They hold zeros, which nobody looks at."""
    return Case(
        (criterion,),
        {"shapes": [list(shape) for shape in shapes], "dtype": str(dtype).removeprefix("torch."), "writes": writes},
    )


def or_large(judge: Callable[[Case, dict], Iterator[Failure]]) -> Callable[[Case, dict], Iterator[Failure]]:
    """``judge``, but for cases that :func:`large` made."""
    return lambda case, evidence: (_judge_large if "shapes" in case.inputs else judge)(case, evidence)


def _judge_large(case: Case, evidence: dict) -> Iterator[Failure]:
    """One launch, whose programs could load all inputs and store all of the result if each does as much as the one that was counted."""
    seen = Observation.from_dict(evidence["seen"])
    problem = launches_problem(seen) or in_memory_problem(seen)
    if not problem and evidence["ended"] and _too_few(case.inputs, seen):
        problem = "At a larger size some elements are left out: the programs do not reach the end."
    yield from (Failure(criterion, problem) for criterion in case.criteria if problem)


def _too_few(inputs: dict, seen: Observation) -> bool:
    launch, size = seen.launches[0], getattr(torch, inputs["dtype"]).itemsize
    programs, elements = math.prod(launch.grid), sum(map(math.prod, inputs["shapes"]))
    return (
        programs * launch.total("written_bytes") < inputs["writes"] * size
        or programs * launch.total("read_bytes") < elements * size
    )
