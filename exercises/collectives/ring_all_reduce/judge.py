"""E13.1 ring_all_reduce: cases and judge.

What crossed is the referee's own record. What a rank says is its result alone, and that must be made of what crossed.
"""

from collections.abc import Iterator

import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.collective_broker import CollectiveRecord, Traffic
from autograder.judge.expect import error_problem, tensor_problem
from autograder.judge.ranks import by_call, stopped
from exercises.collectives.ring_all_reduce.flow import DTYPES, Knowledge, Message, message, steps, sums

_LARGEST = {torch.float32: 1 << 20, torch.float64: 1 << 48, torch.int64: 1 << 60}
"""Sums of four are exact in their own dtype, and in no smaller one."""
_BESIDE = -7
_ALL = ("values", "bytes", "no_hot_rank", "steps")


def _cases(sampler: Sampler) -> Iterator[Case]:
    for world in sampler.shuffled(1, 2, 4):
        once, again = world * sampler.integer(2, 4), world * sampler.integer(1, 5)
        yield _case(sampler, _ALL, world, [once, once, again])
    for world in sampler.shuffled(3, 4):
        lengths = [
            world * sampler.integer(1, 3) + 1,
            world * sampler.integer(1, 3) + world - 1,
            sampler.integer(1, world - 1),
            0,
        ]
        yield _case(sampler, ("ragged",), world, sampler.permutation(lengths))
    for world, shape in sampler.shuffled((2, (2, 4)), (1, ())):
        each = tuple({"base": sampler.tensor(*shape)} for _ in range(world))
        yield Case(
            ("errors",), {"world": world, "strided": [False]}, raises="ValueError", ranks=world, per_rank_inputs=each
        )


def _case(sampler: Sampler, criteria: tuple[str, ...], world: int, lengths: list[int]) -> Case:
    strided = sampler.shuffled(*_strided(len(lengths)))
    kinds = zip(lengths, _dtypes(sampler, len(lengths)), strided)
    by_rank = zip(*(_bases(sampler, world, *kind) for kind in kinds), strict=True)
    each = tuple([{"base": base} for base in bases] for bases in by_rank)
    return Case(criteria, {"world": world, "strided": strided}, ranks=world, per_rank_inputs=each)


def _dtypes(sampler: Sampler, count: int) -> list[torch.dtype]:
    return (sampler.shuffled(*DTYPES.values()) * 2)[:count]


def _strided(count: int) -> list[bool]:
    return [number % 2 == 1 for number in range(count)]


def _bases(sampler: Sampler, world: int, length: int, dtype: torch.dtype, strided: bool) -> list[torch.Tensor]:
    """By rank what its buffer lies in."""
    numbers = _numbers(sampler, world, length, _LARGEST[dtype])
    return [_base(torch.tensor(own, dtype=dtype), strided) for own in numbers]


def _numbers(sampler: Sampler, world: int, length: int, largest: int) -> list[list[int]]:
    while True:
        numbers = [[sampler.integer(-largest, largest) for _ in range(length)] for _ in range(world)]
        if not length or sums(numbers) is not None:
            return numbers


def _base(values: torch.Tensor, strided: bool) -> torch.Tensor:
    if not strided:
        return values
    base = torch.full((2 * len(values) + 1,), _BESIDE, dtype=values.dtype)
    base[1::2] = values
    return base


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    traffic: Traffic = evidence["traffic"]
    if case.raises:
        if problem := _error_problem(case, evidence, traffic):
            yield Failure("errors", problem)
        return
    if problem := stopped(evidence):
        yield from (Failure(criterion, problem) for criterion in case.criteria)
        return
    between = by_call(traffic.collectives)
    for number, strided in enumerate(case.inputs["strided"]):
        call = {"bases": [own[number]["base"] for own in case.per_rank_inputs], "strided": strided}
        after = [bases[number] for bases in evidence["results"]]
        yield from _judge_call(case, call, after, between[number] if number < len(between) else [])


def _error_problem(case: Case, evidence: dict, traffic: Traffic) -> str | None:
    if problem := error_problem(evidence, case.raises):
        return f"{problem} A buffer of another number of dimensions than one cannot be cut into chunks."
    if len(evidence["raised_by"]) < case.ranks:
        return "Not every rank raised ValueError: the others wait for a message that never comes."
    return "The ranks raised after something had been sent." if traffic.entries else None


def _judge_call(case: Case, call: dict, after: list, collectives: list[CollectiveRecord]) -> Iterator[Failure]:
    worth = case.criteria[0]
    bufs = [base[1::2] if call["strided"] else base for base in call["bases"]]
    if problem := _sum_problem(bufs, call, after) or _way_problem(bufs, collectives):
        yield Failure(worth, problem)
        return
    world, length = case.ranks, len(bufs[0])
    messages = [message(collective) for collective in collectives]
    chunk = -(-length // world)
    if sum(len(m.values) for m in messages) > 2 * (world - 1) * world * chunk:
        yield Failure(
            "bytes",
            "More bytes are sent than necessary: a rank needs partial sums, not every other rank's whole buffer.",
        )
    if _is_hot(messages, world, 2 * (world - 1) * (length % world > 0)):
        yield Failure(
            "no_hot_rank",
            "A rank sends or receives more than the others, which wait for its link while theirs are idle.",
        )
    if worth == "values" and (took := steps(messages)) > 2 * (world - 1):
        yield Failure("steps", _too_many_steps(took, world))


def _too_many_steps(took: int, world: int) -> str:
    return (
        f"{world} ranks took {took} steps; expected at most {2 * (world - 1)}. In each step all ranks send at "
        "once, one message each; a rank that receives before it sends makes the next one wait."
    )


def _sum_problem(bufs: list[torch.Tensor], call: dict, after: list) -> str | None:
    total = sum(bufs[1:], start=bufs[0])
    for base, now in zip(call["bases"], after, strict=True):
        if problem := tensor_problem(now, base):
            return problem
        if not torch.equal(now[1::2] if call["strided"] else now, total):
            return "A rank's buffer does not hold the sum of all ranks' buffers, in every element."
        if call["strided"] and not torch.equal(now[0::2], base[0::2]):
            return "Elements that lie between those of buf were changed."
    return None


def _way_problem(bufs: list[torch.Tensor], collectives: list[CollectiveRecord]) -> str | None:
    """Why the sums did not come by messages of send and recv, or None."""
    foreign = {collective.entry.operation for collective in collectives} - {"send"}
    if foreign:
        return f"torch.distributed did the work ({sorted(foreign)[0]}): use send and recv alone."
    if any(collective.entry.dtype not in DTYPES for collective in collectives):
        return "A message holds values that are not sums of the ranks' elements."
    numbers = [[int(value) for value in buf] for buf in bufs]
    of = sums(numbers) if len(bufs[0]) else {}
    return Knowledge(len(bufs), of).problem([message(collective) for collective in collectives], len(bufs[0]))


def _is_hot(messages: list[Message], world: int, odd: int) -> bool:
    """Whether a rank has more than its share of all that crosses, and ``odd`` elements: what cannot be divided."""
    share = sum(len(m.values) for m in messages) / world + odd
    for end in ("sender", "receiver"):
        if any(sum(len(m.values) for m in messages if getattr(m, end) == rank) > share for rank in range(world)):
            return True
    return False


exercise = Exercise(
    criteria=(
        Criterion("values", 2, "every rank's buffer holds the sum, computed from what was received"),
        Criterion("ragged", 1, "also where the number of ranks does not divide the length", ("values",)),
        Criterion("bytes", 1, "no more bytes are sent than necessary", ("values",)),
        Criterion("no_hot_rank", 1, "every rank sends and receives the same number of bytes", ("values",)),
        Criterion("steps", 2, "it takes at most 2 (world - 1) steps", ("values",)),
        Criterion("errors", 1, "a buffer that is not one-dimensional is refused with ValueError", ("values",)),
    ),
    cases=_cases,
    judge=_judge,
)
