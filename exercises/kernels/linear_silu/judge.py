"""E7.4 linear_silu: cases and judge."""

import math
from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise
from autograder.core.sampler import Sampler
from exercises.kernels.large import large, or_large
from exercises.kernels.own_kernel import (
    fault_problem,
    judge_own,
    launches_problem,
    own_memory_problem,
    values_problem,
    written_once_problem,
)
from gpulab import Observation

_TOLERANCE = 6e-4  # one rounding to float16, and what a float32 sigmoid is off by
_SMALL = 1e-5
_LEAST_TILE = 32
_PROMISE = "an element of x is read once for each tile of columns, and one of the weights once for each tile of rows"


def _linear_silu_cases(sampler: Sampler) -> Iterator[Case]:
    # One tile of columns, and one of rows: tiles that are lower, or narrower, there load more.
    yield _case(("values", "once", "tiles"), sampler, 64, 32, 64)
    yield _case(("values", "tiles"), sampler, 32, 64, 32, again=True)
    # Loads beyond the end of a row of the weights are in the array: only the count tells.
    yield _case(("ragged", "bounds", "tiles"), sampler, 64, 64, sampler.integer(17, 29))
    # Larger in one direction than a tile.
    some, few = sampler.integer(17, 31), sampler.integer(3, 9)
    for m, n, k in sampler.shuffled((some + 16, few, some), (few, some + 16, some), (some, few, some + 48)):
        yield _case(("ragged", "bounds", "once"), sampler, m, n, k)
    yield _case(("ragged", "bounds", "once"), sampler, 1, sampler.integer(2, 9), 1)
    # And than a launch, or a tile that one could hold for all of it.
    long, deep = sampler.integer(65_600, 70_000), sampler.integer(520, 600)
    for m, n, k in sampler.shuffled((long, some, few), (few, long, some), (some, few, deep)):
        yield large("once", torch.float16, (m, k), (n, k), (n,), writes=m * n)
    yield _fine(sampler, 32, 32, 64)
    yield _case(("edges",), sampler, 0, 32, 32, again=True)
    yield _case(("ragged", "bounds"), sampler, sampler.integer(2, 5), 1, sampler.integer(3, 9))
    yield _wrong(sampler, x=(4, 17), weight=(8, 16), bias=(8,))
    yield _wrong(sampler, x=(4, 16), weight=(8, 17), bias=(8,))
    yield _wrong(sampler, x=(4, 16), weight=(8, 16), bias=(4,))
    yield _wrong(sampler, x=(4, 16), weight=(8, 16), bias=(16,))
    yield _wrong(sampler, x=(4, 16), weight=(8, 16), bias=(1,))
    # Where there is nothing to compute, sizes have to fit too.
    yield _wrong(sampler, x=(0, 17), weight=(8, 16), bias=(8,))
    yield _wrong(sampler, x=(0, 16), weight=(8, 16), bias=(4,))


def _case(criteria: tuple[str, ...], sampler: Sampler, m: int, n: int, k: int, again: bool = False) -> Case:
    """Quarters: their products have exact sums, small ones, on both sides of 0, where SiLU is neither 0 nor the identity."""
    x, weight = _whole(sampler, -2, 2, m, k) / 4, _whole(sampler, -2, 2, n, k) / 4
    bias = _whole(sampler, -4, 4, n) / 4
    return Case(criteria, {"x": x.half(), "weight": weight.half(), "bias": bias.half(), "again": again})


def _fine(sampler: Sampler, m: int, n: int, k: int) -> Case:
    """Sums that float32 holds and float16 does not, not even of one tile, nor after the bias has brought them to -4 to -6.

    There SiLU differs by more than the tolerance where its argument was rounded to float16. All rows are alike but in one element.
    """
    row, weight = _whole(sampler, 40, 90, k) / 64, _whole(sampler, 40, 90, n, k) / 64
    x = row.repeat(m, 1)
    x[torch.arange(m), _whole(sampler, 0, k - 1, m).long()] += 1 / 64
    bias = -(weight @ row) - 4.5 - _whole(sampler, 0, 16, n) / 16
    return Case(("exact",), {"x": x.half(), "weight": weight.half(), "bias": bias.half(), "again": False})


def _wrong(sampler: Sampler, **shapes: tuple[int, ...]) -> Case:
    inputs = {name: _whole(sampler, 1, 3, *shape).half() for name, shape in shapes.items()}
    (_, k), (n, inner), (biases,) = shapes.values()
    because = (
        f"x has {k} columns and weight {inner}" if k != inner else f"weight has {n} rows and bias {biases} elements"
    )
    return Case(("edges",), {**inputs, "again": False}, raises="ValueError", because=because)


def _whole(sampler: Sampler, low: int, high: int, *shape: int) -> torch.Tensor:
    return (sampler.tensor(*shape, dtype=torch.int64) % (high - low + 1) + low).float()


def _reference(inputs: dict) -> torch.Tensor:
    y = inputs["x"].double() @ inputs["weight"].double().T + inputs["bias"].double()
    return y * torch.sigmoid(y)


def _value_problem(case: Case, evidence: dict, message: str) -> str | None:
    before = [case.inputs[name] for name in ("x", "weight", "bias")]
    if not all(torch.equal(a, b) for a, b in zip(before, evidence["inputs"], strict=True)):
        return "An input is not what it was."
    found = evidence["result"]
    if found.dtype != torch.float16:
        return f"The result is {found.dtype}; expected torch.float16."
    if problem := own_memory_problem(evidence):
        return problem
    return values_problem(found, _reference(case.inputs), _TOLERANCE, message, _SMALL)


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "The result is not silu(x @ weight.T + bias).")


def _ragged_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "Where a size is no multiple of the tile, the result is wrong: what lies beyond an edge has to count as 0.",
    )


def _exact_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(
        case,
        evidence,
        "The sum, or what SiLU is taken of, loses its last digits: float16 has 11 bits of them, so all stays in float32 until the store.",
    )


def _bounds_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return fault_problem(seen)


def _once_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return launches_problem(seen) or written_once_problem(seen, evidence["result"])


def _tiles_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    """Every program loads a strip of x and one of the weights; larger tiles load them less often."""
    (m, k), n = case.inputs["x"].shape, case.inputs["weight"].shape[0]
    # Whole tiles of the result: a lane beyond its edge may load an element that is there.
    down, across = math.ceil(m / _LEAST_TILE), math.ceil(n / _LEAST_TILE)
    elements = down * across * _LEAST_TILE * (2 * k + 1)
    loaded = sum(launch.total("read_bytes") for launch in seen.launches) / case.inputs["x"].element_size()
    if loaded > elements:
        return f"{loaded / elements:.2f} times the loads that tiles of {_LEAST_TILE} x {_LEAST_TILE} need: with tiles, {_PROMISE}."
    if loaded < m * k + n * k:
        return "Not every element of the inputs is loaded."
    return None


def _edges_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return _value_problem(case, evidence, "A batch of no rows gives a result of no rows.")


_PROBLEM = {
    "values": _values_problem,
    "ragged": _ragged_problem,
    "bounds": _bounds_problem,
    "exact": _exact_problem,
    "once": _once_problem,
    "tiles": _tiles_problem,
    "edges": _edges_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of your own gives silu(x @ weight.T + bias)"),
        Criterion("ragged", 1, "sizes that are not a multiple of the tile are right", ("values",)),
        Criterion("bounds", 1, "no lane loads or stores out of bounds", ("values",)),
        Criterion("exact", 1, "all is float32 until the store", ("values",)),
        Criterion("once", 2, "one launch writes each element of the result once and reads none back", ("values",)),
        Criterion("tiles", 2, "each input is read as often as tiles of 32 x 32 need, or less", ("values",)),
        Criterion("edges", 1, "no rows, and sizes that do not match", ("values",)),
    ),
    cases=_linear_silu_cases,
    judge=or_large(judge_own(_PROBLEM)),
)
