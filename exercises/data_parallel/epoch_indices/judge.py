"""E14.3 epoch_indices: cases and judge."""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch

from autograder.core.exercise import Case, Criterion, Exercise, Failure
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import ask, judge_questions, refuse


def _cases(sampler: Sampler) -> Iterator[Case]:
    yield ask("order", list(_even(sampler)))
    yield ask("padding", list(_uneven(sampler)))
    shared_out = [
        _question(sampler, world * sampler.integer(2, 9), world, world - 1) for world in sampler.shuffled(1, 2, 5)
    ]
    written = {"writes": -sampler.integer(10**6, 10**7)}
    yield ask("repeated", [question | written for question in (*shared_out, *_uneven(sampler))])
    yield ask("dropped", list(_dropped(sampler)))
    yield ask("resumed", list(_resumed(sampler)))
    refused = list(_refused(sampler))
    kinds = (*(kind(sampler) for kind in (_even, _uneven, _dropped, _resumed)), (question for question, _ in refused))
    yield ask("random", [question for kind in kinds for question in _few(sampler, kind)])
    yield refuse("errors", refused)


def _few(sampler: Sampler, questions: Iterator[dict]) -> list[dict]:
    return sampler.permutation(list(questions))[:25]


def _question(sampler: Sampler, length: int, world: int, rank: int, **named: int) -> dict:
    """Of an epoch and a seed that are drawn. ``named``: what is given by its name."""
    epoch, seed = sampler.choice((sampler.integer(1, 9), sampler.integer(100, 10**6))), sampler.integer(1, 10**12)
    return _asked(sampler, (length, world, rank, epoch, seed), named)


def _asked(sampler: Sampler, asked: tuple[int, ...], named: dict | None = None) -> dict:
    """``writes``: what the caller writes into the lists that came, before the next call, if it does."""
    return {"asked": list(asked), "named": named or {}, "noise": sampler.integer(0, 2**31), "writes": 0}


def _even(sampler: Sampler) -> Iterator[dict]:
    """As many samples as ranks, a few times, many times; first and later epochs; seeds one apart; twice the same."""
    for world in sampler.shuffled(1, 2, 3, 8, sampler.integer(9, 40)):
        for times in sampler.shuffled(1, sampler.integer(2, 9), sampler.integer(20, 200)):
            for rank in {0, world // 2, world - 1}:
                yield _question(sampler, times * world, world, rank)
    seed, world = sampler.integer(1, 10**9), sampler.integer(2, 5)
    for asked in sampler.shuffled(*((epoch, seed + more) for epoch in (0, 1, 2) for more in (0, 1))) * 2:
        yield _asked(sampler, (30 * world, world, sampler.integer(0, world - 1), *asked))
    for asked in sampler.shuffled((0, 0), (1, 0), (0, 2**40), (10**6, 1)):
        question = _asked(sampler, (30 * world, world, 1, *asked))
        yield from (question, question)
    yield _question(sampler, 40_000, 8, sampler.integer(0, 7))


def _uneven(sampler: Sampler) -> Iterator[dict]:
    """One sample left over, all but one, some; fewer samples than ranks, one, none. Ranks around the last one."""
    for world in sampler.shuffled(2, 3, 8, sampler.integer(9, 20)):
        times = world * sampler.integer(2, 30)
        for length in {times + 1, times - 1, times + world // 2, 1, world - 1, (world + 1) // 2, world // 3, 0}:
            last = (length - 1) % world
            for rank in {0, last, (last + 1) % world, sampler.integer(0, world - 1), world - 1}:
                yield _question(sampler, length, world, rank)


def _dropped(sampler: Sampler) -> Iterator[dict]:
    """Nothing to leave out, one sample, all but one of a turn, a whole epoch; and ``False``, by its name."""
    for world in sampler.shuffled(1, 2, 5, sampler.integer(6, 20)):
        times = world * sampler.integer(2, 30)
        for length in {times, times + 1, times - 1, world, world - 1, 1, 0}:
            for rank in {0, world // 2, world - 1}:
                yield _question(sampler, length, world, rank, drop_last=True)
    yield _question(sampler, 60, 4, sampler.integer(0, 3), drop_last=False)


def _resumed(sampler: Sampler) -> Iterator[dict]:
    """After none, one, some, all but one and all of its samples; every rank, even and uneven, padded and not."""
    for world in sampler.shuffled(1, 3, sampler.integer(4, 9)):
        even = world * sampler.integer(5, 20)
        for length in {even, even + 1, 2 * even - 1, 0}:
            for drop_last in sampler.shuffled({}, {"drop_last": True}):
                turns = _turns(length, world, **drop_last)
                for start in {0, 1, turns // 2, turns - 1, turns} & {*range(turns + 1)}:
                    for rank in {(length - 1) % world, length % world}:
                        yield _question(sampler, length, world, rank, start=start, **drop_last)


def _refused(sampler: Sampler) -> Iterator[tuple[dict, str]]:
    """One thing wrong at a time."""
    outside = "`rank` is not among 0 to `world` - 1"
    for more in sampler.shuffled({}, {"drop_last": True}, {"start": 0}):
        world = sampler.integer(3, 9)
        length, rank = world * sampler.integer(2, 9) + 1, sampler.integer(0, world - 1)
        for wrong in sampler.shuffled(-1, -sampler.integer(2, 99)):
            yield _question(sampler, wrong, world, rank, **more), "`length` is less than 0"
            yield _question(sampler, length, world, wrong, **more), outside
            yield _question(sampler, length, wrong, 0, **more), "`world` is less than 1"
            yield _question(sampler, length, wrong, wrong, **more), "`world` is less than 1"
            asked = (length, world, rank, wrong, sampler.integer(200, 999))
            yield _asked(sampler, asked, more), "`epoch` is less than 0"
        for beyond in sampler.shuffled(world, world + 1, 10 * world):
            yield _question(sampler, length, world, beyond, **more), outside
        yield _question(sampler, sampler.choice((0, length)), 0, 0, **more), "`world` is less than 1"
    for drop_last in sampler.shuffled({}, {"drop_last": True}):
        for length, world in sampler.shuffled((12, 4), (13, 4), (15, 4), (3, 4), (1, 1), (0, 3)):
            turns = _turns(length, world, **drop_last)
            for start in (-1, -sampler.integer(2, 9), turns + 1, turns * world + 1, length + 10):
                wrong = "is less than 0" if start < 0 else "is beyond what this rank reads in the epoch"
                rank = sampler.integer(0, world - 1)
                yield _question(sampler, length, world, rank, start=start, **drop_last), f"`start` {wrong}"


def _turns(length: int, world: int, drop_last: bool = False) -> int:
    """How often each rank has its turn."""
    return sum(1 for first in range(0, length, world) if not drop_last or first + world <= length)


def _reference(
    length: int, world: int, rank: int, epoch: int, seed: int, start: int = 0, drop_last: bool = False
) -> dict:
    """By dealing out (place, sample) to the ranks, turn after turn."""
    generator = torch.Generator("cpu").manual_seed(seed + epoch)
    order = enumerate(islice(cycle(torch.randperm(length, generator=generator).tolist()), length + world))
    dealt = [list(islice(order, world))[rank] for _ in range(_turns(length, world, drop_last))][start:]
    positions = [position for position, (place, _) in enumerate(dealt) if place >= length]
    return {"indices": [sample for _, sample in dealt], "repeated": positions}


_MISREAD = {
    "order": (
        "These are not this rank's samples: every rank takes every world-th sample of one shuffled "
        "order, which depends on seed and epoch."
    ),
    "padding": "Every rank reads equally many samples: an order that does not divide evenly is padded from its beginning.",
    "repeated": (
        "The repeated positions are wrong: they are where the padding put samples that an earlier place "
        "in the order holds."
    ),
    "dropped": "With drop_last the tail of the order is dropped, as few samples as possible, and none is read twice.",
    "resumed": "After a resume a rank reads the rest of what it would have read; positions count from there.",
}


def _judge(case: Case, evidence: dict) -> Iterator[Failure]:
    if case.criteria == ("random",):
        problems = map(_random_problem, case.inputs["questions"], evidence["answers"])
        yield from [Failure("random", problem) for problem in problems if problem][:1]
    else:
        yield from judge_questions(_wrong)(case, evidence)


def _random_problem(question: dict, answer: dict) -> str | None:
    noise = question["noise"]
    generator = torch.Generator("cpu").manual_seed(noise)
    numpy, python = np.random.RandomState(noise), random.Random(noise)
    torch.rand((), generator=generator), numpy.rand(), python.random()
    expected = [
        int(torch.randint(2**40, (), generator=generator)),
        int(numpy.randint(2**31 - 1)),
        python.randrange(2**40),
    ]
    if answer["following"] == expected:
        return None
    return "A global random state is another one after the call: dropout, for one, draws other numbers."


def _wrong(criteria: str, question: dict, value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"The function returned {type_name(value)}; expected a dictionary with the two entries."
    if set(value) != {"indices", "repeated"}:
        return "The entries of the dictionary are not the two that are asked for."
    for entry in value.values():
        if not isinstance(entry, list):
            return f"An entry of the result is {type_name(entry)}; expected a list."
        if strange := next((item for item in entry if type(item) is not int), None):
            return f"A list holds {type_name(strange)}; expected Python integers."
    if question["writes"] and any(question["writes"] in entry for entry in value.values()):
        return "A list is that of an earlier call, whose caller has written into it: every call returns new lists."
    expected = _reference(*question["asked"], **question["named"])
    entries = {"order": ("indices",), "padding": ("indices",), "repeated": ("repeated",)}.get(criteria, tuple(expected))
    return None if all(value[entry] == expected[entry] for entry in entries) else _MISREAD[criteria]


exercise = Exercise(
    criteria=(
        Criterion("order", 2, "a rank reads its share of the epoch's order, which is the same on every rank"),
        Criterion("padding", 2, "an order that does not divide evenly is padded from its beginning"),
        Criterion("repeated", 1, "the positions of repeated samples are reported", ("padding",)),
        Criterion("dropped", 1, "with drop_last as few samples as possible are dropped, at the end"),
        Criterion("resumed", 1, "an epoch resumes where it stopped, and no sample is repeated or missed", ("order",)),
        Criterion("random", 1, "no global random state is changed", ("order",)),
        Criterion("errors", 1, "an invalid rank, epoch or position is refused with ValueError", ("order",)),
    ),
    cases=_cases,
    judge=_judge,
)
