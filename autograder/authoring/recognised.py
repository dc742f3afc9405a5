"""Whether misconceptions are told apart: each form is named as what it is, any other wrong attempt as that or as nothing."""

from collections.abc import Iterator

from autograder.authoring.authored import AuthoredExercise
from autograder.authoring.forked import in_a_fork, silence
from autograder.core.problems import listed
from autograder.misconceptions.corpus import Attempt


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


def misnamed(attempt: Attempt, names: list[list[str]]) -> str:
    """What is wrong with the names that an attempt was given, in a sentence, or nothing."""
    if others := {key for found in names for key in found} - {attempt.says}:
        told = listed(others)
        return f"{attempt.name} is told {told}: write says={told} at its head where that is so, or draw what tells them apart"
    if attempt.says and not all(names):
        missed = f"{names.count([])} of {len(names)} seeds"
        return f"{attempt.name} is a form of {attempt.says} and is not recognised with {missed}"
    return ""
