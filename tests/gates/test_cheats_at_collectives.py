"""Cheating solutions to the chapter "Collectives and interconnects" score zero."""

from autograder.core.sampler import Sampler
from autograder.judge.referee import score_here
from autograder.runner.scenario_runner import run_case


def score(exercise: str, function, seed: int = 7) -> float:
    name = f"collectives.{exercise}"
    return score_here(name, lambda inputs: run_case(name, {exercise: function}, inputs), Sampler(seed))


class Agreeable(float):
    """A number that is as large as one likes."""

    __eq__ = __ne__ = __le__ = __lt__ = __ge__ = __gt__ = lambda self, other: True
    __hash__ = float.__hash__
    __sub__ = __rsub__ = lambda self, other: Agreeable()


class Anything(str):
    """A word that is every word."""

    __eq__ = lambda self, other: True
    __hash__ = str.__hash__


class Everywhere(list):
    """A list that is sorted, however one looks."""

    def __iter__(self):
        return iter(range(len(self)))


def refuse(*asked):
    raise ValueError("no")


def test_a_cheat_at_collective_time_earns_nothing():
    cheats = {
        "nothing": lambda *asked: 0.0,
        "agreeable": lambda *asked: Agreeable(),
        "not a number": lambda *asked: float("nan"),
        "infinite": lambda *asked: float("inf"),
        "everything refused": refuse,
        "the bandwidth": lambda kind, nbytes, n, alpha, beta, *algorithm: nbytes / beta[0],
    }
    assert {what: score("collective_time", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_choose_algorithm_earns_nothing():
    cheats = {
        "always the same": lambda *asked: {"algorithm": "ring", "seconds": 0.0, "bound": "latency"},
        "agreeable": lambda *asked: {
            "algorithm": Anything("ring"),
            "seconds": Agreeable(),
            "bound": Anything("latency"),
        },
        "both": lambda *asked: {"algorithm": ("ring", "tree"), "seconds": 0.0, "bound": ("latency", "bandwidth")},
        "everything refused": refuse,
        "nothing": lambda *asked: {},
    }
    assert {what: score("choose_algorithm", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}


def test_a_cheat_at_place_groups_earns_nothing():
    cheats = {
        "one GPU": lambda world, dims, topology: [0] * world,
        "a list that says it is sorted": lambda world, dims, topology: Everywhere([0] * world),
        "rank r on GPU r": lambda world, dims, topology: list(range(world)),
        "negative numbers": lambda world, dims, topology: [-rank for rank in range(world)],
        "floats": lambda world, dims, topology: [float(rank) for rank in range(world)],
        "a free network": lambda world, dims, topology: (dims.clear(), [])[1],
        "everything refused": refuse,
    }
    assert {what: score("place_groups", cheat) for what, cheat in cheats.items()} == dict.fromkeys(cheats, 0) != {}
