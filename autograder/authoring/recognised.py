"""Whether misconceptions are told apart: each form is named as what it is, any other wrong attempt as that or as nothing."""

from collections.abc import Iterator

import torch

from autograder.authoring.authored import AuthoredExercise
from autograder.core.problems import listed
from autograder.judge.observed import as_played
from autograder.misconceptions.corpus import Attempt
from autograder.misconceptions.forms import worth_asking
from autograder.misconceptions.match import named
from autograder.notebooks.forked import in_a_fork, silence

Facts = dict[str, list[str]] | None
"""Of one attempt with one seed; None where something else cost points than what the function did."""


def names_of(authored: AuthoredExercise, attempt: Attempt, seeds: tuple[int, ...]) -> list[list[str]]:
    """The misconceptions that the attempt's learner is told, for each seed; of none an empty list."""
    authored.begin()
    return in_a_fork(_names, authored, attempt.source, seeds)


def _names(authored: AuthoredExercise, source: str, seeds: tuple[int, ...]) -> Iterator[list[str]]:
    with silence():
        authored.go_on(source, authored.check)
        for seed in seeds:
            told = authored.explained(source, seed)
            yield sorted({line.misconception for line in told.lines} - {""}) if told else []


def names_by_play(authored: AuthoredExercise, seeds: tuple[int, ...]) -> dict[str, list[list[str]]]:
    """As :func:`names_of` where a ``run.py`` calls the function, for every wrong attempt by its name.

    A form is played twice, as a learner's and as itself, from two states of the global generator: what two plays of one
    source do not share makes no name.
    """
    authored.begin()
    forms = [one for one in authored.mistakes if one.says]
    mine, its = (
        {one.name: _facts_of(authored, one, seeds, play) for one in some}
        for play, some in enumerate((authored.mistakes, forms))
    )
    return {
        one.name: [
            _told(authored, one, facts, {name: found[at] for name, found in its.items()})
            for at, facts in enumerate(mine[one.name])
        ]
        for one in authored.mistakes
    }


def _told(authored: AuthoredExercise, attempt: Attempt, mine: Facts, its: dict[str, Facts]) -> list[str]:
    if mine is None:
        return []
    forms = [one for one in authored.mistakes if its.get(one.name) is not None]
    asked = worth_asking(authored.exercise, forms, attempt.loses, mine.keys())
    return sorted({*named(as_played(mine), [(form.says, as_played(its[form.name])) for form in asked]).values()})


def _facts_of(authored: AuthoredExercise, attempt: Attempt, seeds: tuple[int, ...], play: int) -> list[Facts]:
    try:
        return in_a_fork(_facts, authored, attempt.source, seeds, play)
    except RuntimeError:  # it ended its process
        return [None] * len(seeds)


def _facts(authored: AuthoredExercise, source: str, seeds: tuple[int, ...], play: int) -> Iterator[Facts]:
    torch.manual_seed(play)
    with silence():
        authored.go_on(source, authored.check)
        for seed in seeds:
            observed = authored.observed(source, seed)
            yield dict(observed.facts) if observed.whole else None


def misnamed(attempt: Attempt, names: list[list[str]]) -> str:
    """What is wrong with the names that an attempt was given, in a sentence, or nothing."""
    if others := {key for found in names for key in found} - {attempt.says}:
        told = listed(others)
        return f"{attempt.name} is told {told}: write says={told} at its head where that is so, or draw what tells them apart"
    if attempt.says and not all(names):
        missed = f"{names.count([])} of {len(names)} seeds"
        return f"{attempt.name} is a form of {attempt.says} and is not recognised with {missed}"
    return ""
