"""E13.2 choose_algorithm: cases and judge."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.collectives.times import BYTES_PER_S, CHUNKED, WHOLE, able, job, number_problem, ragged, seconds, traits


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask(
        "algorithm", [*_small_and_large(sampler), *_collectives(sampler), *_ties(sampler), *_without_trees(sampler)]
    )
    yield ask("seconds", [*_small_and_large(sampler), *_without_trees(sampler), *_ragged(sampler)])
    yield ask(
        "bound",
        [
            *_even(sampler),
            *_bound_otherwise(sampler),
            *_no_bytes(sampler),
            *_small_and_large(sampler),
            job(sampler, sampler.choice(CHUNKED), sampler.integer(1, 10**9), 1),
        ],
    )


def _small_and_large(sampler: Sampler) -> Iterator[dict]:
    """In every unit: a few bytes, and gigabytes, among few ranks and many."""
    for kind in ("all_reduce", *WHOLE):
        for n in sampler.shuffled(4, 8, sampler.integer(9, 64), sampler.integer(65, 500)):
            for nbytes in (n * sampler.integer(1, 9), n * sampler.integer(10**7, 10**8)):
                alpha, beta = (
                    (sampler.integer(400, 900), "ns"),
                    (sampler.integer(50, 900), sampler.choice(tuple(BYTES_PER_S))),
                )
                yield job(sampler, kind, nbytes, n, alpha, beta)


def _collectives(sampler: Sampler) -> Iterator[dict]:
    """All-reduces a little smaller and a little larger than the size at which ring and tree take the same time."""
    for n in sampler.shuffled(4, 5, 8, 12, sampler.integer(13, 200)):
        alpha, beta = sampler.integer(80, 400) / 8, sampler.integer(8, 800) / 8
        rounds = (n - 1).bit_length()
        equal = alpha * 1e-6 * beta * 1e9 * (n - 1 - rounds) / (rounds - (n - 1) / n)
        for share in (0.9, 0.98, 1.02, 1.1):
            yield job(sampler, "all_reduce", n * int(share * equal / n), n, (alpha, "us"), (beta, "GB/s"))


def _ties(sampler: Sampler) -> Iterator[dict]:
    """Two ranks, whose only step is the same either way, and one rank, which takes none."""
    for kind in WHOLE:
        yield from (job(sampler, kind, nbytes, 2) for nbytes in (0, sampler.integer(1, 10**9)))
    yield from (job(sampler, kind, sampler.integer(1, 10**9), 1) for kind in ("all_reduce", *WHOLE))


def _without_trees(sampler: Sampler) -> Iterator[dict]:
    for kind in ("reduce_scatter", "all_gather"):
        for n in (2, 8, sampler.integer(9, 99)):
            yield from (
                job(sampler, kind, nbytes, n)
                for nbytes in (n * sampler.integer(0, 9), n * sampler.integer(10**6, 10**7))
            )


def _ragged(sampler: Sampler) -> Iterator[dict]:
    """Chunks that are not equal, in rings: of three ranks a ring takes as many steps as a tree."""
    for kind, n in (("all_reduce", 3), ("reduce_scatter", 7), ("all_gather", sampler.integer(8, 40))):
        yield ragged(sampler, kind, n)


def _even(sampler: Sampler) -> Iterator[dict]:
    """A message whose bytes take a little less, or a little more, than its latency; of few bytes, by one byte."""
    for kind in ("all_gather", *WHOLE):
        n, few = sampler.integer(2, 9), sampler.integer(5, 30)
        for message in (few - 1, few + 1):
            yield job(sampler, kind, message if kind in WHOLE else message * n, n, (few, "ns"), (1, "GB/s"))
    for kind in ("all_reduce", "reduce_scatter", *WHOLE):
        for share in sampler.shuffled(0.5, 0.97, 1.03, 2):
            n, alpha, beta = sampler.integer(2, 40), sampler.integer(80, 400) / 8, sampler.integer(80, 800) / 8
            message = int(share * alpha * 1e3 * beta)
            yield job(sampler, kind, message if kind in WHOLE else message * n, n, (alpha, "us"), (beta, "GB/s"))


def _bound_otherwise(sampler: Sampler) -> Iterator[dict]:
    """All-reduces for which the tree is faster and waits for bytes, where the ring would wait for latency."""
    for share in sampler.shuffled(1.5, 2, 2.5):
        n, alpha, beta = sampler.integer(16, 60), sampler.integer(80, 400) / 8, sampler.integer(80, 800) / 8
        yield job(sampler, "all_reduce", n * int(share * alpha * 1e3 * beta / n), n, (alpha, "us"), (beta, "GB/s"))


def _no_bytes(sampler: Sampler) -> Iterator[dict]:
    """Several steps, which take more than a single latency, and none of it is due to bytes."""
    for kind in ("all_reduce", "all_gather"):
        yield job(sampler, kind, 0, sampler.integer(4, 60))


def _reference(question: dict) -> dict:
    times = {algorithm: seconds(question, algorithm) for algorithm in able(question["kind"])}
    best = "tree" if times.get("tree", times["ring"]) < times["ring"] else "ring"
    hops = seconds({**question, "nbytes": 0}, best)
    return {"algorithm": best, "seconds": times[best], "bound": "bandwidth" if times[best] - hops > hops else "latency"}


_MISREAD = {
    "algorithm": (
        "The other algorithm is faster here, or the only one: a tree has fewer steps and sends more in "
        "each, and not every collective has a tree."
    ),
    "bound": "The bound is wrong: of the chosen algorithm's time, is the latency or the bandwidth term the larger?",
}


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    expected = _reference(question)
    if not isinstance(value, dict) or set(value) != set(expected):
        return f"The function returned {type_name(value)}; expected a dictionary with the three entries."
    if criterion == "seconds":
        return number_problem(
            value["seconds"], expected["seconds"], "The seconds are not those of the faster algorithm."
        )
    found = value[criterion]
    return None if isinstance(found, str) and found == expected[criterion] else _MISREAD[criterion]


def _traits(question: dict) -> dict[str, str]:
    expected = _reference(question)
    return {
        "the faster algorithm": f"`{expected['algorithm']}`",
        "its bound": f"`{expected['bound']}`",
        **traits(question),
    }


exercise = answers(
    criteria=(
        Criterion(
            "algorithm",
            2,
            "the faster algorithm is named, also near the crossover, and the ring for a tie",
        ),
        Criterion("seconds", 1, "its time is right"),
        Criterion("bound", 1, "the bound is named, latency or bandwidth"),
    ),
    cases=_cases,
    arguments=itemgetter("kind", "nbytes", "n", "alpha", "beta"),
    wrong=_wrong,
    in_kernel=True,
    traits=_traits,
)
