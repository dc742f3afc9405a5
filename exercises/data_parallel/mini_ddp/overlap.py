"""E14.1: whether buckets are launched as soon as they can be, and overlap with the backward pass."""

from exercises.data_parallel.mini_ddp.buckets import is_all_reduce
from exercises.data_parallel.mini_ddp.training import RankStep, Training

Handed = list[tuple[int, list[int]]]
"""Of each all-reduce of a rank its count of requests by then, and the elements of its gradients that it handed in."""


def launched_problem(training: Training) -> str | None:
    """Why a rank launched something later than it could, or None. What it hands in says of itself what it is."""
    for rank in (rank for ranks in training.steps for rank in ranks):
        all_reduces = filter(is_all_reduce, rank.span.launches)
        handed = [(one.at, rank.elements_in(one.given, one.dtype)) for one in all_reduces]
        if _is_late(rank, handed):
            return _LATE
        if len(set().union(*(elements for _, elements in handed))) < len(rank.owners):
            return "Not every gradient is reduced: an all-reduce holds something other than this step's gradients."
        if _is_first_late(training, rank, handed):
            return _LATE
    return None


_LATE = (
    "A bucket's all-reduce starts later than it could: all of its gradients are ready, and other "
    "layers still go through their backward pass."
)


def _is_late(rank: RankStep, handed: Handed) -> bool:
    """Whether backward went on when a bucket, and all before it, were ready, before it was launched, whatever the buckets are."""
    due: dict[str, int] = {}
    for at, elements in handed:
        for model, ready in rank.ready(elements).items():
            due[model] = max(ready, due.get(model, 0))
            if at > due[model]:
                return True
    return False


def _is_first_late(training: Training, rank: RankStep, handed: Handed) -> bool:
    """The same of a model's first bucket where it holds a byte too many: then every rule that begins at the last parameter has
    launched it.
    """
    for limit, (first, *_) in zip(training.limits, training.buckets(), strict=True):
        expected = rank.elements_of(first)
        due = max(rank.ready(expected).values())
        in_time = set().union(*(elements for at, elements in handed if at < due))
        if sum(p.nbytes for p in first.values()) == limit + 1 and not in_time.issuperset(expected):
            return True
    return False
