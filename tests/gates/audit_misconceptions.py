"""Each form of a misconception is named as what it is, and every other wrong attempt as that or as nothing.

Each is played as a submission is. Where the judge asks functions itself, it is asked why they lost, with thirty seeds: some
minutes for an exercise. Where a ``run.py`` calls them, each is played twice with every seed, which takes as long as they do.
"""

import functools

import pytest

from autograder.authoring.authored import AuthoredExercise, authored_exercises
from autograder.authoring.drafts import in_the_book
from autograder.authoring.recognised import misnamed, names_by_play, names_of
from autograder.authoring.trials import MANY_SEEDS
from tests.gates.small import EXERCISES

A_FEW = MANY_SEEDS[:2]


@functools.cache
def of_the_book() -> dict[str, AuthoredExercise]:
    shown = in_the_book(EXERCISES)
    return {one.name: one for one in authored_exercises(EXERCISES) if one.name.partition(".")[0] in shown}


def problems(authored: AuthoredExercise) -> list[str]:
    if authored.exercise.facts:
        names = {one.name: names_of(authored, one, MANY_SEEDS) for one in authored.mistakes}
    else:
        names = names_by_play(authored, A_FEW)
    found = (misnamed(one, names[one.name]) for one in authored.mistakes)
    return [problem for problem in found if problem]


@pytest.mark.parametrize("name", of_the_book())
def test_misconceptions_are_told_apart(name):
    assert problems(of_the_book()[name]) == []
