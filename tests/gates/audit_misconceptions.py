"""With thirty seeds each form of a misconception is named as what it is, and every other wrong attempt as that or as nothing.

Each is played as a submission is, and the judge is asked why it lost. Some minutes for an exercise.
"""

import functools

import pytest

from autograder.authoring.authored import AuthoredExercise, authored_exercises
from autograder.authoring.drafts import in_the_book
from autograder.authoring.recognised import misnamed, names_of
from autograder.authoring.trials import MANY_SEEDS
from tests.gates.small import EXERCISES


@functools.cache
def asked() -> dict[str, AuthoredExercise]:
    """Those of the book whose judge asks functions itself, by name."""
    shown = in_the_book(EXERCISES)
    found = {one.name: one for one in authored_exercises(EXERCISES) if one.name.partition(".")[0] in shown}
    return {name: one for name, one in found.items() if one.exercise.facts}


@pytest.mark.parametrize("name", asked())
def test_misconceptions_are_told_apart(name):
    authored = asked()[name]
    problems = [misnamed(one, names_of(authored, one, MANY_SEEDS)) for one in authored.mistakes]
    assert [problem for problem in problems if problem] == []
