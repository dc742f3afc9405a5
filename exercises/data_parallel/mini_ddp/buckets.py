"""E14.1: whether what crosses in a step is every model's buckets, each once and in order."""

from collections.abc import Sequence

from torch import nn

from autograder.judge.ranks import Launch, is_of_all
from exercises.data_parallel.mini_ddp.training import Bucket, RankStep, Training

_DTYPES = ("float32", "float64")


def buckets_problem(training: Training) -> str | None:
    return next(filter(None, (_step_problem(training, ranks) for ranks in training.steps)), None)


def _step_problem(training: Training, ranks: Sequence[RankStep]) -> str | None:
    launches, queues = ranks[0].span.launches, training.buckets()
    if problem := _collectives_problem(ranks, sum(map(len, queues))):
        return problem
    for launch in launches:
        given_by = zip(ranks, launch.collective.given, strict=True)
        handed = [rank.elements_in(given, launch.dtype) for rank, given in given_by]
        next_ones = [queue for queue in queues if queue]
        queue = next((queue for queue in next_ones if _is_bucket(launch, handed, queue[0], ranks)), None)
        if queue is None:
            return _why_no_bucket(launch, [queue[0] for queue in next_ones])
        if any(elements != handed[0] for elements in handed):
            return "The ranks put gradients at different places of a flat tensor: the all-reduce adds those of different parameters."
        queue.pop(0)
    return None


def _collectives_problem(ranks: Sequence[RankStep], expected: int) -> str | None:
    launches, every = ranks[0].span.launches, [launch for rank in ranks for launch in rank.span.launches]
    if any(len(launch.collective.entry.ranks) < len(ranks) for launch in every):
        return "In a step a collective ran in which not all ranks took part."
    if not all(map(is_all_reduce, launches)):
        return "In a step a rank communicated something other than an all-reduce of gradients in their dtype."
    if len(launches) != expected:
        which = "more" if len(launches) > expected else "fewer"
        return f"There are {which} all-reduces in a step than buckets: each bucket is reduced once, as one flat tensor."
    return None


def is_all_reduce(launch: Launch) -> bool:
    """Whether it adds numbers of a gradient's dtype."""
    return (
        launch.operation == "all_reduce"
        and launch.dtype in _DTYPES
        and launch.collective.entry.reduces in ("SUM", "AVG")
    )


def _is_bucket(launch: Launch, handed: list[list[int]], bucket: Bucket, ranks: Sequence[RankStep]) -> bool:
    """Whether every rank handed in its own gradients of ``bucket`` and nothing else, in whatever order."""
    if not is_of_all(launch.collective, len(ranks)) or _form(bucket) != (launch.dtype, len(launch.given)):
        return False
    return all(sorted(elements) == rank.elements_of(bucket) for rank, elements in zip(ranks, handed, strict=True))


def _form(bucket: Bucket) -> tuple[str, int]:
    """Its dtype, and its size in bytes."""
    parameters = list(bucket.values())
    return _dtype(parameters[0]), sum(p.nbytes for p in parameters)


def _dtype(parameter: nn.Parameter) -> str:
    return str(parameter.dtype).removeprefix("torch.")


def _why_no_bucket(launch: Launch, next_ones: list[Bucket]) -> str:
    forms, form = list(map(_form, next_ones)), (launch.dtype, len(launch.given))
    if form[0] not in dict(forms):
        return "A bucket is reduced in a dtype other than its gradients', or mixes two dtypes."
    if form not in forms:
        return (
            "A bucket has the wrong size, or is reduced out of order. From the last parameter to the first, "
            "each joins the open bucket of its dtype, which is closed when it holds bucket_bytes or more; every "
            "rank reduces buckets in the order in which they were opened."
        )
    return (
        "A rank's flat tensor does not hold its own gradients of the bucket's parameters: was it "
        "launched before the last of them was ready, or is it left over from another step?"
    )


def dtypes_problem(training: Training) -> str | None:
    """Why not as many bytes of each dtype are reduced as parameters that are trained have, or None."""
    trained = [p for p in training.models.parameters() if p.requires_grad]
    for rank, *_ in training.steps:
        for dtype in _DTYPES:
            reduced = sum(len(launch.given) for launch in rank.span.launches if launch.dtype == dtype)
            if reduced != sum(p.nbytes for p in trained if _dtype(p) == dtype):
                return (
                    "The elements reduced in a dtype are not those of its trainable parameters: frozen parameters "
                    "have no gradients to reduce."
                )
    return None
