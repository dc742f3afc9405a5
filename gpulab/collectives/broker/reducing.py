"""The results of collectives: what each rank of a group gets, of what all of them gave."""

from collections.abc import Callable, Sequence

import torch

from gpulab.collectives.broker.calls import Call

DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}
_STEPS: dict[str, Callable] = {
    "SUM": lambda total, part: total.add_(part),
    "AVG": lambda total, part: total.add_(part),
    "PRODUCT": lambda total, part: total.mul_(part),
    "MAX": lambda total, part: torch.maximum(total, part, out=total),
    "MIN": lambda total, part: torch.minimum(total, part, out=total),
    "BAND": lambda total, part: total.bitwise_and_(part),
    "BOR": lambda total, part: total.bitwise_or_(part),
    "BXOR": lambda total, part: total.bitwise_xor_(part),
}

Bytes = Sequence[memoryview]


class CannotReduce(ValueError):
    """No such reduction of such a dtype."""


def combined(calls: list[Call]) -> list[Bytes]:
    """The parts of each rank's answer, in the order of ``calls``, the ranks of a group. Raises CannotReduce."""
    give = {
        "barrier": _nothing,
        "all_gather": _all_to_everyone,
        "broadcast": _roots_to_everyone,
        "gather": _all_to_the_root,
        "scatter": _cut_at_the_root,
        "all_to_all": _exchanged,
        "all_reduce": _sum_to_everyone,
        "reduce": _sum_to_the_root,
        "reduce_scatter": _sum_in_shares,
    }
    return give[calls[0].operation](calls)


OPERATIONS = (
    "barrier",
    "all_gather",
    "broadcast",
    "gather",
    "scatter",
    "all_to_all",
    "all_reduce",
    "reduce",
    "reduce_scatter",
)


def _nothing(calls: list[Call]) -> list[Bytes]:
    return [()] * len(calls)


def _payloads(calls: list[Call]) -> Bytes:
    return [memoryview(call.payload) for call in calls]


def _all_to_everyone(calls: list[Call]) -> list[Bytes]:
    return [_payloads(calls)] * len(calls)


def _roots_to_everyone(calls: list[Call]) -> list[Bytes]:
    return [_payloads([calls[calls[0].root]])] * len(calls)


def _all_to_the_root(calls: list[Call]) -> list[Bytes]:
    return [_payloads(calls) if i == call.root else () for i, call in enumerate(calls)]


def _cut_at_the_root(calls: list[Call]) -> list[Bytes]:
    root = calls[calls[0].root]
    return [[part] for part in _cut(root.payload, root.gives)]


def _exchanged(calls: list[Call]) -> list[Bytes]:
    rows = [_cut(call.payload, call.gives) for call in calls]
    return [[row[i] for row in rows] for i in range(len(calls))]


def _sum_to_everyone(calls: list[Call]) -> list[Bytes]:
    return [[_sum(calls)]] * len(calls)


def _sum_to_the_root(calls: list[Call]) -> list[Bytes]:
    total = _sum(calls)
    return [[total] if i == call.root else () for i, call in enumerate(calls)]


def _sum_in_shares(calls: list[Call]) -> list[Bytes]:
    return [[part] for part in _cut(_sum(calls), calls[0].gives)]


def _cut(whole, sizes: Sequence[int]) -> list[memoryview]:
    parts, at = [], 0
    for size in sizes:
        parts.append(memoryview(whole)[at : at + size])
        at += size
    return parts


def _sum(calls: list[Call]) -> memoryview:
    """In the order of ranks, in the dtype that they have: the same bits on each rank and in each run."""
    if not calls[0].payload:
        return memoryview(b"")
    first = calls[0]
    dtype, step = DTYPES.get(first.dtype), _STEPS.get(first.reduces)
    try:
        if dtype is None or step is None:
            raise RuntimeError("no such operation")
        total, *others = (torch.frombuffer(call.payload, dtype=dtype) for call in calls)
        total = total.clone()  # what a rank handed in is on record
        for part in others:
            total = step(total, part)
        if first.reduces == "AVG":
            # NCCL divides a sum of integers and drops what is left.
            total = total.div(
                len(calls), rounding_mode=None if dtype.is_floating_point or dtype.is_complex else "trunc"
            )
    except RuntimeError as error:
        raise CannotReduce(f"{first.operation} {first.reduces} of {first.dtype}: {error}") from None
    return memoryview(total.view(torch.uint8).numpy())
