"""E7.2 fused_gate: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise
from autograder.core.sampler import Sampler
from exercises.kernels.large import large, or_large
from exercises.kernels.own_kernel import (
    fault_problem,
    judge_own,
    launches_problem,
    outside,
    own_memory_problem,
    use_of,
    values_problem,
    written_once_problem,
)
from gpulab import Observation

_TOLERANCE = 1e-5
_BIAS_LOADS = 1.0  # for each element of x: a program reads the bias of its own elements


def _fused_gate_cases(sampler: Sampler) -> Iterator[Case]:
    yield _case(("values", "fused", "inputs"), sampler, 32, 64, again=True)
    yield _case(("values",), sampler, 16, 128, largest=200)  # exp of it is infinite
    odd = 2 * sampler.integer(10, 20) + 1
    # A row, a column, and sizes that no power of two divides: less than a tile, and more than one.
    for rows, columns in sampler.shuffled(
        (1, odd), (odd, 1), (odd, 3 * odd), (97, odd), (2, 2 * sampler.integer(520, 600) + 1)
    ):
        yield _case(("bounds", "fused", "inputs"), sampler, rows, columns)
    yield _case(("bounds",), sampler, 0, sampler.integer(3, 9))
    # More elements than the largest tile of Triton holds.
    rows, columns = sampler.integer(1025, 1060), sampler.integer(1025, 1060)
    yield large("fused", torch.float32, (rows, columns), (rows, columns), (columns,), writes=rows * columns)


def _case(
    criteria: tuple[str, ...], sampler: Sampler, rows: int, columns: int, largest: float = 6, again: bool = False
) -> Case:
    x, gate, bias = sampler.tensor(rows, columns), sampler.tensor(rows, columns), sampler.tensor(columns)
    inputs = {"x": _small(x, largest), "gate": _small(gate, 3), "bias": _small(bias, 2)}
    return Case(criteria, {**inputs, "again": again})


def _small(values: torch.Tensor, largest: float) -> torch.Tensor:
    return largest * values / values.abs().max() if values.numel() else values


def _reference(inputs: dict) -> torch.Tensor:
    y = inputs["x"].double() + inputs["bias"].double()
    return y * torch.sigmoid(y) * inputs["gate"].double()


def _values_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    return values_problem(
        evidence["result"], _reference(case.inputs), _TOLERANCE, "The result is not silu(x + bias) * gate."
    )


def _fused_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if any(map(outside, seen.launches)):
        return None  # another criterion's matter
    if problem := launches_problem(seen) or written_once_problem(seen, evidence["result"]):
        return problem
    size = case.inputs["x"].nbytes
    loaded = seen.launches[0].total("read_bytes") / size
    if loaded > 2 + _BIAS_LOADS or any(use.read_bytes > use.distinct_read_bytes for use in use_of(seen, False, size)):
        return f"{loaded:.1f} loads for each element of the result, where x, gate and bias are three: what is loaded twice is moved twice."
    return None


def _bounds_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    problem = _values_problem(case, evidence, seen)
    if not problem and not evidence["result"].numel() and evidence["is_an_input"]:
        return own_memory_problem(evidence)
    return fault_problem(seen) or (problem and f"{_where(case)}: {problem[0].lower()}{problem[1:]}")


def _where(case: Case) -> str:
    return "Where the size is no multiple of the tile" if case.inputs["x"].numel() else "Where there are no rows"


def _inputs_problem(case: Case, evidence: dict, seen: Observation) -> str | None:
    if evidence["handed_out_twice"] or evidence["is_an_input"] and evidence["result"].numel():
        return own_memory_problem(evidence)
    before = [case.inputs[name] for name in ("x", "gate", "bias")]
    if all(torch.equal(a, b) for a, b in zip(before, evidence["inputs"], strict=True)):
        return None
    return "An input is not what it was: autograd, and the caller, may still need it."


_PROBLEM = {"values": _values_problem, "fused": _fused_problem, "bounds": _bounds_problem, "inputs": _inputs_problem}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "a kernel of your own gives silu(x + bias) * gate"),
        Criterion("fused", 3, "one launch reads x and gate once and writes the result once", ("values",)),
        Criterion(
            "bounds",
            1,
            "sizes that are not a multiple of the tile are right, without out-of-bounds accesses",
            ("values",),
        ),
        Criterion("inputs", 1, "x, gate and bias are unchanged, and the result is new", ("values",)),
    ),
    cases=_fused_gate_cases,
    judge=or_large(judge_own(_PROBLEM, edge="bounds")),
)
