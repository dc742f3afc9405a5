"""E3.1 add_vectors: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from exercises.execution.launches import (
    faults_problem,
    grid_problem,
    once_problem,
    values_problem,
    work_problem,
)
from gpulab import Observation
from gpulab.observe.launches import Launch

_LAUNCH = ("bounds", "once", "launch")
_MANY = 2 * 132 + 1
"""Blocks, more than an H100 holds of two on each multiprocessor, or 256: often taken for limits."""
_SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0)


def _cases(sampler: Sampler) -> Iterator[Case]:
    kinds = iter(sampler.shuffled("mixed", "ties", "tiny", "huge"))
    for threads, n in _whole(sampler):
        yield _case(("values", *_LAUNCH), sampler, n, threads, next(kinds))
    for threads, n in _ragged(sampler):
        yield _case(("tail", *_LAUNCH), sampler, n, threads, "mixed")
    half = sampler.integer(5, 11)
    for threads in (2 * half, half):  # of one length: what was kept of the first call is too little for the second
        yield _case(("values", *_LAUNCH), sampler, 2 * half, threads, "negative")
    special = _case(("values", *_LAUNCH), sampler, 2 * len(_SPECIAL) ** 2, 2 * len(_SPECIAL), "mixed")
    for name, repeated in (("a", 1), ("b", len(_SPECIAL))):
        meets = torch.tensor(_SPECIAL).repeat_interleave(repeated).repeat(len(_SPECIAL) // repeated)
        special.inputs[name][: len(_SPECIAL) ** 2] = meets
    yield special
    yield _case(("empty",), sampler, 0, sampler.choice([1, 64, 1024]), "mixed")


def _whole(sampler: Sampler) -> list[tuple[int, int]]:
    """Blocks of one thread, of a part of a warp more, of whole warps and of all the threads that there may be, all of them full."""
    odd, warps = sampler.choice([36, 50, 70]), 32 * sampler.integer(1, 2)
    return sampler.shuffled(
        (1, sampler.integer(_MANY, _MANY + 5)), (odd, odd), (warps, sampler.integer(2, 3) * warps), (1024, 1024)
    )


def _ragged(sampler: Sampler) -> list[tuple[int, int]]:
    """A block that is not full: one element short, one too many, one alone, some; and most of a large one."""
    odd, warps = sampler.choice([36, 50, 70]), 32 * sampler.integer(2, 3)
    some = sampler.integer(2, 3) * odd + sampler.integer(2, odd - 2)
    large = sampler.choice([580, 750, 1000])
    return sampler.shuffled(
        (odd, some), (warps, warps - 1), (warps, warps + 1), (1024, 1), (large, 2 * large - sampler.integer(3, 30))
    )


def _case(criteria: tuple[str, ...], sampler: Sampler, n: int, threads: int, kind: str) -> Case:
    return Case(criteria, {"a": sampler.values(n, kind=kind), "b": sampler.values(n, kind=kind), "threads": threads})


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    first, *of_launch = case.criteria
    seen = Observation.from_dict(evidence["seen"])
    if first == "empty":
        if problem := _empty_problem(seen, evidence):
            yield Failure("empty", problem)
        return
    a, b, threads = (case.inputs[name] for name in ("a", "b", "threads"))
    if problem := work_problem(evidence, seen, a.nbytes) or values_problem(seen, evidence["out"], a + b):
        yield Failure(first, problem)
    if len(seen.launches) != 1:
        yield Failure("launch", "Expected exactly one launch.")
        return
    launch = seen.launches[0]
    grid = grid_problem(launch, (-(-len(a) // threads), 1, 1), (threads, 1, 1))
    once = once_problem(launch, a.nbytes, reads=2 * a.nbytes) or (None if grid else _several_problem(launch))
    problems = {"bounds": faults_problem(launch), "once": once, "launch": grid}
    yield from (Failure(name, problems[name]) for name in of_launch if problems[name])


def _several_problem(launch: Launch) -> str | None:
    if any(use.busiest_stores > 1 for use in launch.arrays):
        return "Some threads do several elements, and others none: each thread is to do one."
    return None


def _empty_problem(seen: Observation, evidence: dict) -> str | None:
    if seen.launches:
        return "For vectors of no elements a kernel is launched."
    return work_problem(evidence, seen, 0)


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "one launch of the learner's kernel writes the sum, and nothing is returned"),
        Criterion("tail", 1, "lengths that do not fill the last block are summed completely", ("values",)),
        Criterion("bounds", 1, "no access is out of bounds, and there are no races or missed barriers", ("values",)),
        Criterion("once", 1, "each element is read once and written once", ("values",)),
        Criterion(
            "launch", 1, "the block is as passed and the grid the smallest that covers all elements", ("values",)
        ),
        Criterion("empty", 1, "for empty vectors nothing is launched", ("values",)),
    ),
    cases=_cases,
    judge=_judge,
)
