"""What crosses in a step of zero_adam: gradients one way and new values the other, as one sequence in equal shares.

Nothing here knows Adam. What should cross is what the judge hands in: the gradients that a rank alone was given, and the values
that its parameters have after the step. Sequences are flat, in float64.
"""

from collections.abc import Callable, Sequence

import torch

from autograder.judge.collective_broker import CollectiveRecord, Traffic
from autograder.judge.ranks import handed_in, is_of_all

Tensor = torch.Tensor

_DUE = "shares are equal parts of the elements, padded to the next multiple of the ranks, whatever the sizes of the tensors."


def why_others(operations: list[str], steps: int) -> str | None:
    """Why ``operations`` are not a reduce-scatter and an all-gather in each step."""
    if operations == ["reduce_scatter", "all_gather"] * steps:
        return None
    if foreign := sorted(set(operations) - {"reduce_scatter", "all_gather"}):
        return f"Something else crosses than a reduce-scatter and an all-gather: {foreign[0]}."
    for operation in ("reduce_scatter", "all_gather"):
        if operations.count(operation) != steps:
            which = "More" if operations.count(operation) > steps else "Fewer"
            return f"{which} collectives of the kind {operation} cross than there are steps: one a step, of one flat tensor."
    return "In a step the all-gather crosses before the reduce-scatter: what it brings cannot be new."


def once_a_step(traffic: Traffic, operation: str, steps: int) -> list[CollectiveRecord | None]:
    """Of each step, where there is one a step; whatever else crosses."""
    found = [collective for collective in traffic.collectives if collective.entry.operation == operation]
    return list(found) if len(found) == steps else [None] * steps


def kind_problem(collectives: Sequence[CollectiveRecord], ranks: int, dtype: torch.dtype) -> str | None:
    if not all(is_of_all(collective, ranks) for collective in collectives):
        return "A collective does not cross between all ranks in the default process group."
    alike = all(f"torch.{collective.entry.dtype}" == str(dtype) for collective in collectives)
    return None if alike else "What crosses has another dtype than the parameters."


def given(collective: CollectiveRecord) -> list[Tensor]:
    """By rank, what it handed in."""
    return [handed_in(part, collective.entry.dtype).double() for part in collective.given]


def _is_handed(scatter: CollectiveRecord, grads: list[Tensor], seen: Callable[[Tensor], Tensor]) -> bool:
    """Whether each rank handed in its gradients, as they are or divided by the number of ranks, as its dtype has them."""
    pairs = [(seen(part), seen(own)) for part, own in zip(given(scatter), grads, strict=True)]
    if any(len(part) != len(own) for part, own in pairs):
        return False
    dtype = getattr(torch, scatter.entry.dtype)
    near = max(1e-6, torch.finfo(dtype).eps if dtype.is_floating_point else 0)
    return any(
        all(bool(((part - own / by).abs() <= near * own.abs()).all()) for part, own in pairs) for by in (1, len(grads))
    )


def handed_problem(
    scatter: CollectiveRecord, gather: CollectiveRecord, grads: list[Tensor], frozen: Tensor
) -> str | None:
    """In any order, where no padding is due. ``frozen``: the values of parameters that are not trained."""
    if len(frozen) and torch.isin(frozen, torch.cat(given(gather))).all():
        return "Parameters that do not require gradients cross with the others: they belong to no share."
    if all(len(part) > len(own) for part, own in zip(given(scatter), grads, strict=True)):
        return "More elements cross than all trained parameters have: where the ranks divide their number, nothing is padded."
    if not _is_handed(scatter, grads, lambda flat: flat.sort().values):
        return "What a rank hands in to the reduce-scatter are not its own gradients of this step, nothing more and nothing less."
    return None


def row_problem(scatter: CollectiveRecord, grads: list[Tensor], values: Sequence[Tensor]) -> str | None:
    """Where each of ``values``, some not contiguous, has its gradient in its place: whether the elements are in theirs."""
    sizes = [value.numel() for value in values]
    every = lambda flat: flat.split(sizes) if len(flat) == sum(sizes) else (flat,)
    in_any_order = lambda flat: torch.cat([part.sort().values for part in every(flat)])
    if all(value.is_contiguous() for value in values) or not _is_handed(scatter, grads, in_any_order):
        return None
    if _is_handed(scatter, grads, lambda flat: flat):
        return None
    return "A parameter's elements do not cross in row-major order: their order is that of its indices, whatever its strides."


def cut_problem(scatter: CollectiveRecord, grads: list[Tensor]) -> str | None:
    elements, padding = len(grads[0]), -len(grads[0]) % len(grads)
    if any(len(part) != elements + padding for part in given(scatter)):
        return f"The gradients that cross are more or fewer than due: {_DUE}"
    if not _is_handed(scatter, grads, lambda flat: flat[:elements]):
        return (
            "What a rank hands in to the reduce-scatter are not its own gradients in sequence: parameter after parameter, row by "
            "row, and the padding behind them."
        )
    return None


def joined_problem(gather: CollectiveRecord, after: list[Tensor]) -> str | None:
    """``after``: all values of each rank. Where they are none that came, or whole parts of it exchanged, that is lost elsewhere."""
    parts = given(gather)
    came, elements = torch.cat(parts), len(after[0])
    if not all(torch.isin(now, came).all() for now in after):
        return None
    if len(came) != elements + -elements % len(parts):
        return f"The new values that cross are more or fewer than due: {_DUE}"
    if all(torch.equal(came[:elements], now) or _are_exchanged(parts, now) for now in after):
        return None
    return "A rank's part of the all-gather is not its share of the sequence, or parameters take other places of it than theirs."


def _are_exchanged(parts: list[Tensor], now: Tensor) -> bool:
    whole = [piece for piece in now.split(len(parts[0])) if len(piece) == len(parts[0])]
    return all(any(torch.equal(piece, part) for part in parts) for piece in whole)
