"""E16.2 validate_schedule: cases and judge. What is due is what ``gpulab.parallel`` finds, which has tests of its own."""

from collections.abc import Iterator
from typing import Any

from autograder.core.exercise import Criterion
from autograder.core.sampler import Sampler
from autograder.judge.expect import type_name
from autograder.judge.questions import Questions, answers, ask
from exercises.parallelism.validate_schedule import cases as drawn
from gpulab.parallel import violations

_ALL_KINDS = ("missing", "early", "twice", "foreign", "split")


def _cases(sampler: Sampler) -> Iterator[Questions]:
    yield _asked("sound", _ALL_KINDS, sampler.permutation(list(drawn.sound(sampler))))
    yield _asked("missing", ("missing",), sampler.permutation(list(drawn.missing(sampler))))
    yield _asked("early", ("early",), sampler.permutation(list(drawn.early(sampler))))
    yield _asked("once", ("twice",), sampler.permutation(list(drawn.more_than_once(sampler))))
    yield _asked("once", ("early", "twice"), list(drawn.counted_by_the_first(sampler)))
    yield _asked("foreign", ("foreign",), sampler.permutation(list(drawn.strange(sampler))))
    yield _asked("foreign", _ALL_KINDS, list(drawn.strangers_apart(sampler)))
    yield _asked("split", ("split",), sampler.permutation(list(drawn.elsewhere(sampler))))
    yield ask("errors", sampler.permutation(list(drawn.refused(sampler))), raises="ValueError")


def _asked(criterion: str, kinds: tuple[str, ...], questions: list[dict]) -> Questions:
    """A case in which violations of these kinds are looked at."""
    return ask(criterion, [question | {"kinds": kinds} for question in questions])


def _expected(question: dict) -> set[tuple[str, str]]:
    found = violations(question["table"], question["stages"], question["microbatches"])
    return {(one.kind, str(one.action.stage) if one.kind == "split" else str(one.action)) for one in found}


def _wrong(criterion: str, question: dict, value: Any) -> str | None:
    if problem := _form_problem(value):
        return problem
    found, expected = {tuple(pair) for pair in value}, _expected(question)
    if len(found) < len(value):
        return "A violation is in the list more than once."
    if criterion == "sound":
        return _REFUSED[min(found)[0]] if found else None
    for kind in question["kinds"]:
        if {pair for pair in found if pair[0] == kind} != {pair for pair in expected if pair[0] == kind}:
            return _too_few(kind, found, expected)
    return None


def _too_few(kind: str, found: set, expected: set) -> str:
    too_many = {pair for pair in found - expected if pair[0] == kind}
    return (
        _TOO_MANY[kind] if too_many and not {pair for pair in expected - found if pair[0] == kind} else _TOO_FEW[kind]
    )


def _form_problem(value: Any) -> str | None:
    if not isinstance(value, list):
        return f"The function returned {type_name(value)}; expected a list."
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            return "Something in the list is no pair of two strings, a kind and an action or a stage."
        if pair[0] not in _ALL_KINDS:
            return "A violation is of a kind that there is not: foreign, missing, early, twice and split are all."
    return None


_TOO_FEW = {
    "missing": (
        "Actions that never run are not named as is due: each stage's F of each microbatch, and its B or, where one half of it "
        "runs, the other half; whether or not the table names the stage or the microbatch at all."
    ),
    "early": (
        "An action that runs before what it needs is not found: backward passes need the stage behind them and their own "
        "forward pass, the weights' half needs the other; the same slot is too early, and so is any where it never runs."
    ),
    "twice": "Not every action that runs more than once is found: whole backward passes beside a half of them are, too.",
    "foreign": "Not every action of a stage or microbatch that the pipeline does not have is found: they are counted from 0.",
    "split": "Not every stage that runs on two GPUs is found: its number is named, once.",
}
_TOO_MANY = {
    "missing": "Something is said to be missing that runs, or that is not due: of a backward pass that never runs only B is.",
    "early": (
        "Something is said to be early that is not: it needs its own microbatch alone, of two actions that will do one, and of "
        "several runs the first counts."
    ),
    "twice": "Something is said to run twice that does not: it is an action that does, and of B and its halves B alone.",
    "foreign": "An action of the pipeline's own is said to be foreign.",
    "split": "A stage is said to be split that runs on one GPU: any stage may be on any GPU, and several on one.",
}
_REFUSED = {
    "missing": "In a sound schedule something is said to be missing: a backward pass may be whole or in halves.",
    "early": "In a sound schedule something is said to be early: an order is free where no need forbids it, and one slot is enough.",
    "twice": "In a sound schedule something is said to run twice.",
    "foreign": "In a sound schedule something is said to be foreign: stages and microbatches may have several digits.",
    "split": "In a sound schedule a stage is said to be split: any stage may be on any GPU, and several on one.",
}


exercise = answers(
    criteria=(
        Criterion("missing", 1, "what never runs is named"),
        Criterion("early", 3, "what runs no later than what it needs is named, forward and backward"),
        Criterion("sound", 2, "no sound schedule is refused, whatever its order", ("early", "missing")),
        Criterion("once", 1, "what runs more than once is named"),
        Criterion("foreign", 1, "what belongs to no stage or microbatch is named"),
        Criterion("split", 1, "stages on more than one GPU are named"),
        Criterion("errors", 1, "what is no table of actions is refused with ValueError", ("sound",)),
    ),
    cases=_cases,
    arguments=lambda question: (question["table"], question["stages"], question["microbatches"]),
    wrong=_wrong,
    kept="The function changed the table.",
)
