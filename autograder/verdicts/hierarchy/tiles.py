"""E4.2 tiled_matmul: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.draw import Draw
from autograder.exercise import Case, Criterion, Exercise, Lost
from autograder.verdicts.expect import error_problem, tensor_problem
from autograder.verdicts.hierarchy.kernels import did_less, efficiency, fault_problem, not_by_kernels, total
from autograder.verdicts.hierarchy.sums import whole_numbers
from gpulab import Observation

_TILE = 16
_LEAST_EFFICIENCY = 0.5
_ON_WHOLE_TILES = ("values", "traffic", "filled", "reused", "conflicts", "moved")


def _tiled_matmul_cases(draw: Draw) -> Iterator[Case]:
    m, n, k = (_TILE * tiles for tiles in draw.shuffled([2, 3, 4]))
    yield _case(_ON_WHOLE_TILES, draw, m, k, n)
    m, n, k = (_TILE * tiles + draw.integer(1, _TILE - 1) for tiles in draw.shuffled([1, 1, 2]))
    yield _case(("odd", "traffic"), draw, m, k, n)
    yield _case(("odd",), draw, *draw.shuffled([1, draw.integer(3, 9), draw.integer(17, 24)]))
    for empty in range(3):
        yield _case(("odd",), draw, *(0 if axis == empty else draw.integer(2, 20) for axis in range(3)))
    yield _case(("odd",), draw, draw.integer(4, 9), draw.integer(10, 15), draw.integer(4, 9), inner=draw.integer(16, 20))


def _case(about: tuple[str, ...], draw: Draw, m: int, k: int, n: int, inner: int | None = None) -> Case:
    a, b = whole_numbers(draw, m, k), whole_numbers(draw, k if inner is None else inner, n)
    return Case(about, {"a": a, "b": b, "refused": inner is not None})


def _judge_tiled_matmul(case: Case, evidence: dict) -> Iterator[Lost]:
    if case.inputs["refused"]:
        if problem := error_problem(evidence, "ValueError"):
            yield Lost("odd", f"{problem} The inner sizes differ.")
        return
    seen = Observation.from_dict(evidence["seen"])
    wrong = _values_problem(case.inputs["a"], case.inputs["b"], evidence, seen)
    for criterion in case.about:
        if problem := wrong if criterion in ("values", "odd") else _PROBLEM[criterion](case, seen):
            yield Lost(criterion, problem)


def _values_problem(a: torch.Tensor, b: torch.Tensor, evidence: dict, seen: Observation) -> str | None:
    due, launches = (a.double() @ b.double()).float(), seen.launches
    works = a.numel() and b.numel()
    if problem := tensor_problem(evidence["result"], due) or fault_problem(launches):
        return problem
    if works and (problem := not_by_kernels(evidence, seen, due)):
        return problem
    if not torch.equal(evidence["result"], due):
        return "An element of the product is wrong: was it computed from tiles that were there, and from all of them?"
    if not evidence["inputs_kept"]:
        return "The function changed an input."
    return did_less(launches, 2 * a.numel() * b.shape[1], a.numel() + b.numel(), due.numel()) if works else None


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
        seen, ("read after write",), "A thread reads of a tile what another may still be writing: no barrier stands between."
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

tiled_matmul = Exercise(
    "hierarchy.tiled_matmul",
    criteria=(
        Criterion("values", 2, "a kernel of yours computes the product exactly"),
        Criterion("traffic", 3, "an element is loaded once for each tile that needs it, and stored once", ("values",)),
        Criterion("filled", 1, "no thread reads a tile before it is there", ("traffic",)),
        Criterion("reused", 1, "no thread overwrites a tile that another still reads", ("traffic",)),
        Criterion("conflicts", 1, "no request to shared memory takes a second pass", ("traffic",)),
        Criterion("moved", 1, "at least half of the bytes that move are asked for", ("values",)),
        Criterion("odd", 1, "sizes of any number, 0 included, are multiplied, and those that do not fit refused", ("values",)),
    ),
    cases=_tiled_matmul_cases,
    judge=_judge_tiled_matmul,
)
