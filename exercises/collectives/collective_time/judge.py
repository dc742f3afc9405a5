"""E13.2 collective_time: cases and judge."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.questions import Questions, answers, ask, refuse
from exercises.collectives.times import (
    BYTES_PER_S,
    CHUNKED,
    SECONDS,
    TREES,
    WHOLE,
    job,
    number_problem,
    ragged,
    seconds,
    traits,
    whole_chunks,
)


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("rings", [_ring(sampler, kind, n) for kind in CHUNKED for n in _ranks(sampler)])
    yield ask("whole", list(_whole(sampler)))
    yield ask("chunks", [ragged(sampler, kind, n) for kind in CHUNKED for n in (3, 7, sampler.integer(8, 40))])
    yield ask("units", list(_units(sampler)))
    yield refuse("errors", _refused(sampler))


def _ranks(sampler: Sampler) -> list[int]:
    """One, two, three, powers of two and their neighbours, many."""
    return sampler.shuffled(1, 2, 3, 4, 5, 8, 9, 16, 31, 64, sampler.integer(65, 400))


def _ring(sampler: Sampler, kind: str, n: int) -> dict:
    """Named or left out; now and then no bytes at all."""
    nbytes = 0 if n in (2, 5) else whole_chunks(sampler, n)
    return {**job(sampler, kind, nbytes, n), "algorithm": sampler.choice(([], ["ring"]))}


def _whole(sampler: Sampler) -> Iterator[dict]:
    """Rings that hand on everything, and trees."""
    for n in _ranks(sampler):
        for kind in WHOLE:
            yield {**job(sampler, kind, whole_chunks(sampler, n), n), "algorithm": sampler.choice(([], ["ring"]))}
        for kind in TREES:
            yield {**job(sampler, kind, 0 if n == 4 else whole_chunks(sampler, n), n), "algorithm": ["tree"]}


def _units(sampler: Sampler) -> Iterator[dict]:
    """Every unit of the latency with every unit of the bandwidth."""
    for unit in sampler.shuffled(*SECONDS):
        for printed in sampler.shuffled(*BYTES_PER_S):
            n = sampler.integer(2, 16)
            alpha, beta = (
                (sampler.integer(1, 900), unit),
                (sampler.choice((sampler.integer(1, 900), sampler.integer(1, 90) + 0.5)), printed),
            )
            yield job(sampler, sampler.choice(CHUNKED), whole_chunks(sampler, n) * 100, n, alpha, beta)


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    """One thing wrong at a time."""
    right = job(sampler, "all_reduce", whole_chunks(sampler, 8), 8)
    yield from (({**right, "n": n}, "`n` is less than 1") for n in (0, -sampler.integer(1, 9)))
    yield from (({**right, "nbytes": nbytes}, "`nbytes` is less than 0") for nbytes in (-1, -sampler.integer(2, 10**6)))
    for kind in ("allreduce", "ALL_REDUCE", "gather", "all_to_all", "", "send"):
        yield {**right, "kind": kind}, f"{kind!r} is no kind that is named"
    for algorithm in ("rings", "Tree", "", "double tree"):
        yield {**right, "algorithm": [algorithm]}, f"{algorithm!r} is no algorithm that is named"
    for unit in ("s", "µs", "US", "", "GB/s"):
        yield {**right, "alpha": (3, unit)}, f"{unit!r} is no unit of `alpha`"
    for unit in ("GiB/s", "Gbit/s", "gb/s", "MB/s", "", "us", "GT/s"):
        yield {**right, "beta": (3, unit)}, f"{unit!r} is no unit of `beta`"
    for kind in ("reduce_scatter", "all_gather"):
        for n in (8, 1):
            yield {**right, "kind": kind, "algorithm": ["tree"], "n": n}, f"{kind} has no tree"


_MISREAD = {
    "rings": (
        "The time of a ring is wrong: it takes n - 1 steps, each with its latency and one chunk, and "
        "an all-reduce twice as many."
    ),
    "whole": "The time of whole buffers is wrong: how many steps does it take until the last rank has received its own?",
    "chunks": "Bytes are not divided: where they do not share out evenly, the largest chunk is what a step waits for.",
    "units": "A unit is misread: a byte has 8 bits, and what goes both ways goes half as fast one way.",
}


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    return number_problem(value, seconds(question, (question["algorithm"] or ["ring"])[0]), _MISREAD[criterion])


_job = itemgetter("kind", "nbytes", "n", "alpha", "beta")


def _named(question: dict) -> str:
    return f"`{question['algorithm'][0]}`" if question["algorithm"] else "left out"


exercise = answers(
    criteria=(
        Criterion("rings", 2, "all-reduce, reduce-scatter and all-gather on a ring take the sum of their steps"),
        Criterion("whole", 2, "whole buffers take the sum of their steps, on a ring or in a tree"),
        Criterion("chunks", 1, "chunks are whole bytes, and the largest decides", ("rings",)),
        Criterion("units", 2, "nanoseconds, bits, and rates that count both directions are converted", ("rings",)),
        Criterion("errors", 1, "unknown names are refused with ValueError", ("rings",)),
    ),
    cases=_cases,
    arguments=lambda question: (*_job(question), *question["algorithm"]),
    wrong=_wrong,
    in_kernel=True,
    traits=lambda question: {"the algorithm": _named(question), **traits(question)},
)
