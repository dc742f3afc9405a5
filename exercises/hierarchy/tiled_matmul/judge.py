"""E4.3 tiled_matmul: cases and judge."""

import itertools
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import error_problem, raised_problem
from autograder.judge.own_work import ZEROS, own_work_problem
from exercises.hierarchy.numbers import factors, whole_numbers
from exercises.hierarchy.own_kernel import (
    again_problem,
    answers_problem,
    did_less,
    efficiency,
    fault_problem,
    order_problem,
    race_problem,
    result_problem,
    total,
)
from gpulab import Observation

_TILE = 16
_LEAST_EFFICIENCY = 0.5
_ON_ALL = ("traffic", "filled", "reused", "conflicts")


def _tiled_matmul_cases(sampler: Sampler) -> Iterator[Case]:
    m, n = (_TILE * tiles for tiles in sampler.shuffled(1, 3))
    yield _case(("values", "moved", *_ON_ALL), sampler, m, 2 * _TILE, n)
    for m, k, n in _odd_sizes(sampler):
        yield _case(("odd", *_ON_ALL), sampler, m, k, n)
    yield _case(
        ("odd",), sampler, *sampler.shuffled(9, 10, 11), again=True, side_stream=True, offset=sampler.integer(1, 7)
    )
    yield Case(
        ("odd",),
        {"calls": [[whole_numbers(sampler, m, k), whole_numbers(sampler, k, n)] for m, k, n in _empty_sizes(sampler)]},
    )
    misfits = [[whole_numbers(sampler, *a), whole_numbers(sampler, *b)] for a, b in _misfits(sampler)]
    yield Case(("odd",), {"calls": misfits}, raises="ValueError")


def _odd_sizes(sampler: Sampler) -> Iterator[tuple[int, int, int]]:
    """Ragged, with many tiles along k; each size on either side of a tile with each other's; some that are 1, and each one long."""
    part = [sampler.integer(1, _TILE - 1) for _ in "mkn"]
    yield _TILE + part[0], 4 * _TILE + part[1], _TILE + part[2]
    below, above = _TILE - 1, _TILE + 1
    yield from sampler.shuffled((above, below, below), (below, above, below), (below, below, above))
    long, short = sampler.integer(16 * _TILE + 1, 17 * _TILE), sampler.integer(2, 5)
    yield from sampler.shuffled((long, short, 1), (1, 1, long), (short, long, short))


def _empty_sizes(sampler: Sampler) -> Iterator[tuple[int, int, int]]:
    some = sampler.integer(2, 20)
    yield from sampler.shuffled((0, some, some), (some, 0, some), (some, some, 0), (0, 0, some), (0, 0, 0))


def _misfits(sampler: Sampler) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Inner sizes that differ by one, either way, by a tile, where others agree, and where there is nothing to multiply."""
    m, k, n = sampler.permutation(range(4, 10))[:3]
    yield from (((m, k), (inner, n)) for inner in (k - 1, k + 1, k + _TILE, 1, m))
    yield (m, k), (m, k)
    yield from (((0, k), (k - 1, n)), ((m, k), (k - 1, 0)), ((m, 0), (k, n)), ((m, k), (0, n)))
    yield (m, k), (n, k)
    yield from (((0, k), (n, m)), ((m, k), (n, 0)), ((m, 0), (n, k)), ((m, k), (0, n)))


def _case(criteria: tuple[str, ...], sampler: Sampler, m: int, k: int, n: int, again: bool = False, **how: int) -> Case:
    a, b = factors(sampler, m, k, n)
    return Case(criteria, {"a": a, "b": b, **how} | ({"again": list(factors(sampler, m, k, n))} if again else {}))


def _judge_tiled_matmul(case: Case, evidence: dict) -> Iterator[Failure]:
    if "answers" in evidence:
        if problem := _answers_problem(case, evidence):
            yield Failure("odd", problem)
        return
    if "error" in evidence:
        yield Failure(case.criteria[0], raised_problem(evidence["error"]))
        return
    seen = Observation.from_dict(evidence["seen"])
    wrong = _values_problem(case, evidence, seen)
    for criterion in case.criteria:
        if problem := wrong if criterion in ("values", "odd") else _PROBLEM[criterion](case, seen):
            yield Failure(criterion, problem)


def _answers_problem(case: Case, evidence: dict) -> str | None:
    if not case.raises:
        return answers_problem(evidence, [_product(a, b) for a, b in case.inputs["calls"]])
    whys = (f"the inner sizes {a.shape[1]} and {len(b)} differ" for a, b in case.inputs["calls"])
    return next(filter(None, map(error_problem, evidence["answers"], itertools.repeat(case.raises), whys)), None)


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    a, b = case.inputs["a"], case.inputs["b"]
    expected, launches = _product(a, b), seen.launches
    works = a.numel() and b.numel()
    if problem := result_problem(evidence, expected):
        return problem
    if works and (problem := own_work_problem(evidence, seen, expected.nbytes, ZEROS)):
        return problem
    if problem := order_problem(seen):
        return problem
    if (
        problem := again_problem(evidence, expected, _product(*case.inputs["again"]))
        if "again" in case.inputs
        else None
    ):
        return problem
    if not torch.equal(evidence["result"], expected):
        return race_problem(launches) or fault_problem(launches) or _WRONG
    if problem := fault_problem(launches):
        return problem
    if not evidence["inputs_kept"]:
        return "The function changed an input."
    return did_less(launches, 2 * a.numel() * b.shape[1], a.numel() + b.numel(), expected.numel()) if works else None


_WRONG = (
    "An element of the product is wrong: was it added up in float32, from tiles that were there, and from all of them?"
)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


def _traffic_problem(case: Case, seen: Observation) -> str | None:
    a, b = case.inputs["a"], case.inputs["b"]
    m, n = len(a), b.shape[1]
    loads, stores = (total(seen.launches, count) for count in ("loads", "stores"))
    if loads > a.numel() * -(-n // _TILE) + b.numel() * -(-m // _TILE):
        return (
            f"Lanes loaded {loads / (a.numel() + b.numel()):.1f} times as many elements as there are: what one thread "
            "of a block has loaded, others need as well, and shared memory is where they find it."
        )
    if stores > m * n:
        return "Elements of the product are stored more than once: add up in a variable, and store at the end."
    return None


def _conflicts_problem(case: Case, seen: Observation) -> str | None:
    conflicts, requests = (total(seen.launches, count) for count in ("bank_conflicts", "shared_requests"))
    if not conflicts:
        return None
    return (
        f"Shared memory took {conflicts} passes more than its {requests} requests need: lanes of one warp use different "
        "words of the same bank. Which index does the lane move?"
    )


def _moved_problem(case: Case, seen: Observation) -> str | None:
    if efficiency(seen.launches) >= _LEAST_EFFICIENCY:
        return None
    return (
        f"Only {efficiency(seen.launches):.0%} of the bytes that moved were asked for: threadIdx.x is what differs "
        "between neighbouring lanes, and it has to move along a row."
    )


def _filled_problem(case: Case, seen: Observation) -> str | None:
    return _race_problem(
        seen,
        ("read after write",),
        "A thread reads of a tile what another may still be writing: no barrier stands between.",
    )


def _reused_problem(case: Case, seen: Observation) -> str | None:
    return _race_problem(
        seen,
        ("write after read", "write after write"),
        "A thread overwrites of a tile what another may still be reading: no barrier stands between.",
    )


def _race_problem(seen: Observation, kinds: tuple[str, ...], message: str) -> str | None:
    races = [race for launch in seen.launches for race in launch.races if race.kind in kinds]
    if not races:
        return None
    return f"{message} ({races[0].kind}, `{races[0].array:.20}`, at `{str(races[0].second_line.text):.80}`)"


_PROBLEM = {
    "traffic": _traffic_problem,
    "filled": _filled_problem,
    "reused": _reused_problem,
    "conflicts": _conflicts_problem,
    "moved": _moved_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of yours computes the product exactly"),
        Criterion("traffic", 3, "an element is loaded once for each tile that needs it, and stored once", ("values",)),
        Criterion("filled", 1, "no thread reads a tile before it is loaded", ("traffic",)),
        Criterion("reused", 1, "no thread overwrites a tile that another still reads", ("traffic",)),
        Criterion("conflicts", 1, "no request to shared memory has a bank conflict", ("traffic",)),
        Criterion("moved", 1, "at least half of the bytes that move are requested", ("values",)),
        Criterion(
            "odd",
            1,
            "matrices of any size are multiplied, 0 included, and sizes that do not match are refused",
            ("values",),
        ),
    ),
    cases=_tiled_matmul_cases,
    judge=_judge_tiled_matmul,
)
