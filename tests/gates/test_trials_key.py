"""What the record of trials depends on: an exercise's own scenario, and not its neighbour's."""

import ast

from autograder.authoring.trials import reached

MODULE = """
from autograder.runner.outcome import outcome
import torch

LIMIT = 3
OTHER = LIMIT + 1


def played(learner, case):
    return [_one(learner, n) for n in range(LIMIT)]


def _one(learner, n):
    return outcome(lambda: _Box(n))


class _Box:
    pass


def neighbour(learner, case):
    return torch.ones(OTHER)
"""


def names_of(name: str) -> list[str]:
    return [ast.unparse(statement).splitlines()[0] for statement in reached(ast.parse(MODULE), name)]


def test_a_scenario_takes_what_it_uses_and_what_that_uses():
    assert names_of("played") == [
        "from autograder.runner.outcome import outcome",
        "LIMIT = 3",
        "def played(learner, case):",
        "def _one(learner, n):",
        "class _Box:",
    ]


def test_it_takes_nothing_of_its_neighbours():
    assert names_of("neighbour") == ["import torch", "LIMIT = 3", "OTHER = LIMIT + 1", "def neighbour(learner, case):"]
