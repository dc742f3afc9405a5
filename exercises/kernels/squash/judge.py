"""E7.5 squash: cases and judge."""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import tensor_problem
from gpulab.units import plural

_TOLERANCE = 1e-5
_MAX_GRAPHS = 2  # the first shape, and one for all the others
_ARITHMETIC = ("torch", "_operator", "math", "builtins")
_LEAST_OPERATIONS = 3
_READS = ("item", "tolist", "_local_scalar_dense", "nonzero", "masked_select")


def _squash_cases(sampler: Sampler) -> Iterator[Case]:
    limit = sampler.integer(4, 9) / 16
    shapes = _shapes(sampler)
    # Each branch with the largest magnitude below 0 and above it.
    largest = [limit / 2, -limit * 3, limit * 2, -limit / 3, limit * 4]
    batches = [_batch(sampler, shape, top) for shape, top in zip(shapes, largest)]
    still = [_still(sampler, batch) for batch in (batches[3], batches[4])]
    yield _case(("values", "graph", "shapes"), sampler, [*batches[:3], *still], limit, compiled=True)
    yield _case(("gradient",), sampler, [_still(sampler, batch) for batch in batches[:2]], limit)
    yield from _far_cases(sampler)
    least = _batch(sampler, (2, 2), -limit * 2)
    yield _case(("values", "graph"), sampler, [least, still[0], batches[2]], limit, card=True)


def _shapes(sampler: Sampler) -> list[tuple[int, int]]:
    """The first, and four that share a graph: on both sides of what somebody might set apart, a parity or a bound.

    No rows are as many as columns: to the compiler that is a coincidence to guard.
    """
    rows = [sampler.choice([5, 6]), *sampler.permutation([2, 8, 9])]
    columns = [sampler.choice([7, 10]), *sampler.permutation([3, 4, 13])]
    small = list(zip(rows, columns, strict=True))
    large = sampler.integer(130, 140), sampler.integer(260, 280)
    return [*small[:2], large, *small[2:]]


def _far_cases(sampler: Sampler) -> Iterator[Case]:
    """Rows so long that exp of twice their length is infinite, and batches far above their limit, in every layout."""
    limit = sampler.integer(60, 100)
    turned = [_batch(sampler, (5, 4), top).t() for top in sampler.permutation([limit * 0.9, -limit * 5.0])]
    part = _batch(sampler, (6, 9), limit * 2.0)[1:, ::2]
    yield _case(("values", "gradient"), sampler, [*turned, part], float(limit))
    yield _case(("values", "gradient"), sampler, [_batch(sampler, (4, 5), sampler.choice([-9e5, 9e5]))], 1 / 64)


def _case(
    criteria: tuple[str, ...],
    sampler: Sampler,
    batches: list[torch.Tensor],
    limit: float,
    compiled: bool = False,
    card: bool = False,
) -> Case:
    """upstream: what the gradient of each result is. compiled: whether torch.compile is called at all; card: where."""
    upstream = [sampler.tensor(*x.shape) / x.numel() for x in batches]
    return Case(
        criteria, {"batches": batches, "upstream": upstream, "limit": limit, "compiled": compiled, "card": card}
    )


def _batch(sampler: Sampler, shape: tuple[int, int], largest: float) -> torch.Tensor:
    """No two of one magnitude: which of two largest elements gets the gradient is nobody's business."""
    values = sampler.tensor(*shape) + 1 / 32
    return largest * values / values.flatten()[values.abs().argmax()]


def _still(sampler: Sampler, batch: torch.Tensor) -> torch.Tensor:
    """With a row of zeros, not that of the largest element: a joint that does not move."""
    batch = batch.clone()
    largest = batch.abs().amax(dim=1).argmax()
    batch[(largest + sampler.integer(1, batch.shape[0] - 1)) % batch.shape[0]] = 0
    return batch


def _reference(x: torch.Tensor, limit: float, upstream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Result and gradient, in float64."""
    x = x.double().requires_grad_()
    top = x.abs().amax()
    y = x * (limit / top) if top > limit else x
    moves = (y != 0).any(dim=1)
    length = y[moves].norm(dim=1, keepdim=True)
    result = y.clone()
    result[moves] = y[moves] * torch.tanh(length) / length
    result.backward(upstream.double())
    return result.detach(), x.grad


def _references(case: Case) -> list[tuple[torch.Tensor, torch.Tensor]]:
    pairs = zip(case.inputs["batches"], case.inputs["upstream"], strict=True)
    return [_reference(x, case.inputs["limit"], upstream) for x, upstream in pairs]


def _judge_squash(case: Case, evidence: dict) -> Iterator[Failure]:
    for criterion in case.criteria:
        if problem := _PROBLEM[criterion](case, evidence):
            yield Failure(criterion, problem)


def _values_problem(case: Case, evidence: dict) -> str | None:
    if not all(map(torch.equal, evidence["inputs"], case.inputs["batches"])):
        return "x is not what it was: the result belongs in a tensor of its own."
    references = _references(case)
    for name, how in (("eager", "called as it is"), ("compiled", "compiled")):
        if case.inputs["card"]:
            how = "on the card"
        if name == "compiled" and (not case.inputs["compiled"] or evidence["broke"]):
            break  # not called, or another criterion's matter
        for (expected, _), found in zip(references, evidence[name], strict=True):
            if problem := tensor_problem(found, expected.float()):
                return problem
            if not torch.allclose(found.double(), expected, _TOLERANCE, _TOLERANCE):
                return f"The result of the function, {how}, is not that of first_squash: each branch is taken by some batches and not by others."
    return None


def _graph_problem(case: Case, evidence: dict) -> str | None:
    if case.inputs["card"]:
        read = evidence["seen"]["waits"] or any(copy["kind"] == "DtoH" for copy in evidence["seen"]["copies"])
        return "The host reads a value of a tensor, and waits for the card." if read else None
    if evidence["broke"]:
        return f"A graph break: {str(evidence['broke']).splitlines()[0]:.150}"
    if not evidence["graphs"]:
        return (
            "Nothing was captured: code that torch.compile is told to leave alone has no breaks, and no graph either."
        )
    operations = {operation for graph in evidence["graphs"] for operation in graph}
    hidden = next((name for name in operations if name.partition(".")[0] not in _ARITHMETIC), None)
    if hidden or len(operations) < _LEAST_OPERATIONS:
        return "The graph holds next to nothing, or a function that torch.compile cannot look into: the work is hidden from it."
    if read := next((name for name in operations if name.rpartition(".")[2] in _READS), None):
        return f"The host reads a value ({read}) and has to wait for it: the number is a tensor already."
    if "torch.size_from_values" in operations:
        return "How large a tensor is depends on values (a boolean index): the host has to wait for them."
    if any("higher_order" in operation for operation in operations):
        return "A branch is left in the graph (torch.cond): the host reads its condition, and waits for it."
    return None


def _shapes_problem(case: Case, evidence: dict) -> str | None:
    if not evidence["graphs"]:
        return "Nothing was captured."
    if len(evidence["graphs"]) <= _MAX_GRAPHS:
        return None
    return (
        f"{len(evidence['graphs'])} graphs for {plural(len(evidence['eager']), 'shape')}: Python that loops over a size, or "
        "branches on one, is traced anew for each size."
    )


def _gradient_problem(case: Case, evidence: dict) -> str | None:
    if "values" not in case.criteria and _values_problem(case, evidence):
        return "The gradient is that of another function than first_squash: the results differ too."
    for (_, expected), found in zip(_references(case), evidence["gradients"], strict=True):
        if not isinstance(found, torch.Tensor):
            return "No gradient reaches x."
        if not torch.isfinite(found).all():
            return (
                "The gradient is not a number where a row is zero: torch.where computes both branches, and the one that "
                "is not chosen divides by zero; what it divides by has to be made safe."
            )
        if found.shape != expected.shape or not torch.allclose(found.double(), expected, 1e-4, 1e-4):
            return "The gradient is not that of first_squash: a row of zeros passes it on unchanged, and a value read on the host passes none."
    return None


_PROBLEM = {
    "values": _values_problem,
    "graph": _graph_problem,
    "shapes": _shapes_problem,
    "gradient": _gradient_problem,
}

exercise = Exercise(
    criteria=(
        Criterion("values", 2, "the results are those of first_squash, whichever branch a batch takes"),
        Criterion("graph", 2, "torch.compile captures the whole function: no graph break, no value read", ("values",)),
        Criterion("shapes", 2, "two graphs serve all sizes", ("values", "graph")),
        Criterion("gradient", 2, "the gradient is that of first_squash, at rows of zeros too", ("values",)),
    ),
    cases=_squash_cases,
    judge=_judge_squash,
)
