"""E2.4 inplace_legal: cases and judge."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.autograd.inplace_legal.programs import (
    Program,
    chains,
    consumers,
    drawn,
    leaves,
    long,
    readers,
    verdict,
    views,
)

_LONGEST = 1000
_SMALL = 40


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield ask("chain", list(chains(sampler)))
    yield ask("consumers", [*consumers(sampler), *(drawn(sampler, sampler.integer(6, 11)) for _ in range(25))])
    yield ask("views", list(views(sampler)))
    yield ask("readers", list(readers(sampler)))
    yield ask("leaves", list(leaves(sampler)))
    yield ask("errors", [long(_LONGEST)[0]])
    yield ask("errors", sampler.shuffled(*_broken(sampler)), raises="ValueError")


def _broken(sampler: Sampler) -> Iterator[Program]:
    """Programs that are none."""
    start, good = [["leaf"], ["neg", 0]], sampler.choice(("exp", "sin", "add"))
    yield [*start, [sampler.choice(("matmul", "exp_", "Exp", "")), 1], ["neg", 1]]
    yield [*start, ["neg", 2], ["neg", 1]]
    yield [*start, ["neg", 3], ["neg", 1]]
    yield [*start, ["view", -1]]
    yield [*start, ["mul", 1, -2]]
    yield [*start, ["add", 0, 2]]
    yield [*start, ["exp", 0, 1]]
    yield [*start, ["mul", 0]]
    yield [*start, [good], ["neg", 1]]
    yield [*start, ["leaf", 0]]
    yield [["input"], ["neg", 0]]
    yield [*start, ["exp", 1], ["detach", 2]]
    yield [*start, ["input"]]
    yield []


def _wrong(criterion: str, program: Program, found: Any) -> str | None:
    if not isinstance(found, list):
        return f"The function returned {type_name(found)}; expected a list."
    if len(found) != len(program) or any(type(one) is not bool for one in found):
        return "The list does not hold a bool for each step."
    expected = verdict(program) if len(program) <= _SMALL else long(len(program))[1]
    wrong = [number for number, right in enumerate(expected) if found[number] != right]
    if not wrong:
        return None
    said, meant = ("legal", "not") if found[wrong[0]] else ("not legal", "legal")
    return f"A step was said to be {said} that is {meant}: {_WHY[criterion]}"


_WHY = {
    "chain": "what counts is whether an operation saved the value that would be overwritten, its own maker's result among them.",
    "consumers": "all that saved the value count, not only its maker, but none that saves nothing or that backward does not reach.",
    "views": "views and detached tensors share the memory and the version of what they are made from.",
    "readers": "a later step that takes an overwritten value takes another one, and autograd says nothing; to take the result is fine.",
    "errors": "programs are long, and the same holds at their end.",
    "leaves": "autograd lets nobody write to a leaf that requires gradients, nor to its views; data and detached tensors are no such leaves.",
}

exercise = answers(
    criteria=(
        Criterion("chain", 2, "the verdict on a step behind one other operation is autograd's, without asking it"),
        Criterion(
            "consumers", 2, "every use of the value counts that backward comes back to, and no other", ("chain",)
        ),
        Criterion("views", 1, "other names of the same memory count", ("chain",)),
        Criterion("readers", 1, "a value that is read later is not overwritten", ("chain",)),
        Criterion("leaves", 1, "leaves that require gradients are not written to, and others are", ("chain",)),
        Criterion(
            "errors", 1, "what is no program is refused with ValueError, and the longest program is not", ("chain",)
        ),
    ),
    cases=_cases,
    arguments=lambda program: ([tuple(step) for step in program],),
    wrong=_wrong,
    kept="The function changed the program.",
)
